"""The folder of a node's Slurm commands: beside the slurmd that called this hook, or runs here."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

USUAL = ("/usr/bin", "/usr/local/bin", "/opt/slurm/bin")
_DAEMONS = ("slurmd", "slurmstepd")
_MOST_PARENTS = 12  # launcher, time limit, the site's own scripts


def command(name: str, folder: str) -> str | None:
    """Path of a command of Slurm's in `folder`, or, where that is empty, wherever it is."""
    paths = [os.path.join(folder, name)] if folder else _paths(name)
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def _paths(name: str) -> Iterator[str]:
    for place in _told():
        path = os.path.join(place, name)
        if only_root_writes(place) and only_root_writes(path):
            yield path
    yield from (os.path.join(place, name) for place in USUAL)


def _told() -> Iterator[str]:
    yield from _beside(_parents())
    yield from _beside(filter(str.isdecimal, os.listdir("/proc")))  # a sampler has no parents


def _beside(pids: Iterable[str]) -> Iterator[str]:
    """Yield folders beside each slurmd of these processes, another user's excepted.

    A process that runs something else by now may have been any user's: nothing here says that
    what is in these folders may be run.
    """
    for pid in pids:
        try:
            program = os.readlink(f"/proc/{pid}/exe").partition(" (deleted)")[0]
            own = all(_is_ours(os.stat(f"/proc/{pid}{file}")) for file in ("", "/exe"))
        except OSError:
            continue  # it ended, or is another user's
        folder, name = os.path.split(program)
        if name in _DAEMONS and own:
            yield os.path.realpath(os.path.join(os.path.dirname(folder), "bin"))
            yield os.path.realpath(folder)


def only_root_writes(path: str) -> bool:
    """True if nobody but root and this user can write this file, or put another in its place.

    In a folder that all write but that is sticky (/tmp) nobody else replaces what is root's.
    """
    path = os.path.realpath(path)
    try:
        safe = _is_ours(os.stat(path))
        while safe and path != "/":
            path = os.path.dirname(path)
            safe = _is_ours(os.stat(path), but_for=stat.S_ISVTX)
    except OSError:
        return False
    return safe


def _is_ours(status: os.stat_result, but_for: int = 0) -> bool:
    """True if root or this user has it, and others do not write it unless it is sticky."""
    written = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & but_for
    return status.st_uid in (0, os.geteuid()) and not written


def _parents() -> Iterator[str]:
    """The processes above this one."""
    pid = str(os.getppid())
    for _ in range(_MOST_PARENTS):
        yield pid
        try:
            with open(f"/proc/{pid}/stat", "rb") as stat:
                pid = stat.read().rpartition(b")")[2].split()[1].decode()
        except (OSError, IndexError):
            return
