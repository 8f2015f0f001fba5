"""The folder of Slurm's commands: on PATH, or where daemons and their units tell it.

Most sites have Slurm under a folder of its own (/opt/slurm), which no service has on its PATH.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from slurm_ext.core.ownership import why_foreign
from slurm_ext.core.settings.document import Settings

ROOT = Path("/")
USUAL = ("usr/bin", "usr/local/bin", "opt/slurm/bin")
DAEMONS = ("slurmctld", "slurmd", "slurmdbd")
_UNITS = ("etc", "run", "usr/local/lib", "usr/lib", "lib")
_STARTED = re.compile(r"^ExecStart=[-@:+!]*(/\S+)", re.MULTILINE)
_COMMAND = "scontrol"  # which every installation has


class SlurmPlace(NamedTuple):
    """A folder of Slurm's commands, and what tells it."""

    folder: str
    told_by: str


def slurm_bin(settings: Settings) -> str:
    """The folder of Slurm's commands; empty where none has them, or where PATH leads to them."""
    place = slurm_place(settings)
    return "" if place is None or place.told_by == "PATH" else place.folder


def slurm_place(settings: Settings) -> SlurmPlace | None:
    """The folder that the setting names, or the first one that has Slurm's commands."""
    named = settings["paths.slurm_bin"]
    if named:
        return SlurmPlace(named, "paths.slurm_bin")
    conf = settings["paths.slurm_conf"] or os.environ.get("SLURM_CONF", "")
    return next(filter(_has_commands, _places(conf)), None)


def command_path(name: str, folders: str = "") -> str | None:
    """Path of a command in these folders, or in those of PATH; None where none has it.

    As shutil.which, with which three compressors are imported.
    """
    path = folders or os.environ.get("PATH", os.defpath)
    files = (os.path.join(folder, name) for folder in path.split(os.pathsep))  # noqa: PTH118
    return next(filter(_is_command, files), None)


def _is_command(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113


def _has_commands(place: SlurmPlace) -> bool:
    return os.access(Path(place.folder) / _COMMAND, os.X_OK)


def _places(conf: str) -> Iterator[SlurmPlace]:
    command = command_path(_COMMAND)
    if command:
        yield SlurmPlace(str(Path(command).parent), "PATH")
    for program in _running(ROOT / "proc"):
        yield from _safe(_beside(str(program), f"the {program.name} that runs here"))
    for unit in _units():
        with suppress(OSError):
            for program in _STARTED.findall(unit.read_text(errors="replace")):
                yield from _beside(program, str(unit))
    if conf:
        yield from _beside(conf, "the place of slurm.conf")
    yield from (SlurmPlace(str(ROOT / folder), "its usual place") for folder in USUAL)


def _running(proc: Path) -> Iterator[Path]:
    """Programs of Slurm's daemons that are root's or this user's: anybody may call one slurmd.

    And run one of root's a moment later: what is beside it has to be safe by itself.
    """
    for pid in proc.glob("[0-9]*"):
        with suppress(OSError):
            program = Path(str((pid / "exe").readlink()).removesuffix(" (deleted)"))
            if program.name in DAEMONS and pid.stat().st_uid in (0, os.geteuid()):
                yield program


def _safe(places: Iterator[SlurmPlace]) -> Iterator[SlurmPlace]:
    """Yield those whose commands nobody but root and this user can write; as hooks judge them.

    By what links lead to, for another user may change a link.
    """
    for place in places:
        folder = os.path.realpath(place.folder)
        if _only_root_writes(folder) and _only_root_writes(f"{folder}/{_COMMAND}"):
            yield place._replace(folder=folder)


def _only_root_writes(name: str) -> bool:
    """In a folder that all write but that is sticky (/tmp) nobody else replaces what is root's."""
    with suppress(OSError):
        path = Path(os.path.realpath(name))
        above = (folder.stat() for folder in path.parents)
        return why_foreign(path.stat()) is None and all(map(_keeps_ours, above))
    return False


def _keeps_ours(folder: os.stat_result) -> bool:
    sticky = folder.st_mode & stat.S_ISVTX and folder.st_uid in (0, os.geteuid())
    return bool(sticky) or why_foreign(folder) is None


def _units() -> Iterator[Path]:
    for above in _UNITS:
        folder = ROOT / above / "systemd" / "system"
        for name in DAEMONS:
            yield from sorted(folder.glob(f"{name}.service.d/*.conf"))
            yield folder / f"{name}.service"


def _beside(path: str, told_by: str) -> Iterator[SlurmPlace]:
    """Yield the folders of commands for a daemon in <prefix>/sbin, or a file in <prefix>/etc."""
    if path.startswith("/"):
        folder = Path(path).parent
        yield SlurmPlace(str(folder.parent / "bin"), told_by)
        yield SlurmPlace(str(folder), told_by)
