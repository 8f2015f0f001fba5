"""Record of an installation: installed.json and backups of the site's files in <etc>/install/.

It is written before the first change and after the last: if an installation ends half-way, the
next one knows which bytes are dlqueue's and which the site's.
"""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from slurm_ext.core.errors import InputError
from slurm_ext.core.ownership import open_folder, read_own, why_foreign
from slurm_ext.install.site_files import FileContent, InstallRoot

VERSION = 1
MOST_KNOWN = 8  # digests by which a file of ours is recognised as unchanged

Kind = Literal["own", "given", "conf", "lua"]
"""own: rendered by dlqueue. given: written once, then the site edits it. conf, lua: the site's,
with marked lines of dlqueue."""


@dataclass(frozen=True, slots=True)
class InstalledFile:
    """One changed file: its content before (None: absent) and the digests that dlqueue gave it."""

    kind: Kind
    before: FileContent | None
    ours: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InstallRecord:
    """All changed files, folders and links; empty if nothing is installed."""

    steps: frozenset[str] = frozenset()
    files: Mapping[Path, InstalledFile] = field(default_factory=dict)
    folders: tuple[Path, ...] = ()  # that dlqueue made, parents first
    links: Mapping[Path, Path] = field(default_factory=dict)  # link → where it leads
    slurm_conf: Path | None = None  # that dlqueue changed, and the folder of its unit
    units: Path | None = None


def folder_of(place: InstallRoot) -> Path:
    """Folder of the record, by the site's own path."""
    return place.etc / "install"


def load(place: InstallRoot) -> InstallRecord:
    """Read the record of an earlier installation. Raises InputError."""
    path = folder_of(place) / "installed.json"
    data = _own_bytes(place, path)
    if data is None:
        return InstallRecord()
    try:
        body = json.loads(data)
        if body["v"] != VERSION:
            raise InputError(str(path), f"version {body['v']!r} is of another dlqueue")
        return _kept(place, body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"is damaged ({error!r}); backups are in {folder_of(place)}"
        raise InputError(str(path), why) from None


def _own_bytes(place: InstallRoot, path: Path) -> bytes | None:
    """Read a file of the record, which tells root what to write and to remove. Raises InputError.

    Owner and mode of the file and of its folder are judged on what was opened.
    """
    real = place.real(path)
    try:
        with open_folder(real.parent) as folder:
            why = why_foreign(os.fstat(folder))
            if why is not None:
                raise InputError(str(real.parent), f"{why}: whoever wrote there is not obeyed")
            return read_own(Path(real.name), folder=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(str(real), f"cannot be used: {error.strerror}") from None


def _kept(place: InstallRoot, body: dict[str, Any]) -> InstallRecord:
    files = {
        _absolute(path): InstalledFile(
            entry["kind"], _before(place, entry["before"]), tuple(entry["ours"])
        )
        for path, entry in body["files"].items()
    }
    links = {_absolute(link): _absolute(target) for link, target in body["links"].items()}
    return InstallRecord(
        steps=frozenset(body["steps"]),
        files=files,
        folders=tuple(map(_absolute, body["folders"])),
        links=links,
        slurm_conf=_absolute(body["slurm_conf"]),
        units=_absolute(body["units"]),
    )


def _before(place: InstallRoot, body: dict[str, Any] | None) -> FileContent | None:
    if body is None:
        return None
    backup = folder_of(place) / body["digest"]
    data = None if "/" in body["digest"] else _own_bytes(place, backup)
    if data is None or FileContent(data).digest != body["digest"]:
        raise InputError(str(place.real(backup)), "this backup is missing or was changed")
    return FileContent(data, _mode(body["mode"]), int(body["uid"]), int(body["gid"]))


def _mode(mode: object) -> int:
    """Permission bits. Raises ValueError for what no saved file of a site has."""
    if type(mode) is not int or not 0 <= mode <= 0o7777 or mode & (stat.S_ISUID | stat.S_ISGID):
        raise ValueError(f"mode {mode!r}")
    return mode


def _absolute(text: str) -> Path:
    """Path of a site. Raises ValueError for one that leads elsewhere from where it is used."""
    path = Path(text)
    if not path.is_absolute() or ".." in path.parts:
        raise ValueError(f"path {text!r}")
    return path


def as_files(kept: InstallRecord, place: InstallRoot) -> dict[str, bytes]:
    """Return file name in `folder_of` → bytes; the backups first."""
    backups = {e.before.digest: e.before.data for e in kept.files.values() if e.before is not None}
    body = {
        "v": VERSION,
        "steps": sorted(kept.steps),
        "slurm_conf": str(place.slurm_conf),
        "units": str(place.units),
        "files": {str(path): _entry(entry) for path, entry in kept.files.items()},
        "folders": list(map(str, kept.folders)),
        "links": {str(link): str(target) for link, target in kept.links.items()},
    }
    return {**backups, "installed.json": json.dumps(body, indent=1).encode() + b"\n"}


def _entry(entry: InstalledFile) -> dict[str, Any]:
    was = entry.before
    before = was and {"digest": was.digest, "mode": was.mode, "uid": was.uid, "gid": was.gid}
    return {"kind": entry.kind, "before": before, "ours": list(entry.ours)}
