"""Checks of `doctor`: room on the disks that dlqueue writes to, and leave for who writes there."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from slurm_ext.cli.common.settings import siteless
from slurm_ext.cli.doctor.finding import FAIL, OK, WARN, Finding, judged
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.own import own_folder

LEAST_BYTES = 64 * 2**20
LEAST_FILES = 1000
_FULL = "records wait or are dropped: make room"


def own_runs(settings: Settings) -> Iterator[Finding]:
    """The user's own folder, which is all that `dlqueue run` needs where there is no site."""
    if settings.source != Settings().source or not siteless():
        return
    folder = Path(own_folder())
    there = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    advice = f"it measures nothing: {there} cannot be written; set XDG_STATE_HOME"
    yield judged("dlqueue run", os.access(there, os.W_OK), f"keeps its runs in {folder}", advice)


def room(name: str, folder: Path) -> Iterator[Finding]:
    """Free bytes and files where `folder` is or will be; nothing where that cannot be seen."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    try:
        info = os.statvfs(there)
    except OSError:
        return
    if info.f_flag & os.ST_RDONLY:
        yield Finding(
            name, FAIL, f"{there} is read-only", "mount it writable, or set another folder"
        )
        return
    free, files = info.f_bavail * info.f_frsize, info.f_favail
    state = f"{free / 2**20:,.0f} MiB"
    if free < LEAST_BYTES:
        yield Finding(name, FAIL, f"{there} has {state} left", _FULL)
    elif info.f_files and files < LEAST_FILES:
        yield Finding(name, FAIL, f"{there} has room for {files} files", _FULL)
    else:
        yield Finding(name, OK, state)


def may_write(name: str, folder: Path, uid: int) -> Finding:
    """OK where the user who writes there owns it; by its mode and owner, for root sees all."""
    info = folder.stat()
    owns = uid in (0, info.st_uid) and (uid == 0 or bool(info.st_mode & stat.S_IWUSR))
    state = f"{folder}, uid {info.st_uid}, mode {info.st_mode & 0o7777:o}"
    if owns:
        return Finding(name, OK, state)
    others = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)  # its group may be the writer's
    advice = f"uid {uid} writes there: chown {uid} {folder}"
    return Finding(name, WARN if others else FAIL, state, advice)
