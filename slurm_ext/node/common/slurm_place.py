"""The folder of a node's Slurm commands: beside the slurmd that called this hook, or runs here."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

USUAL = ("/usr/bin", "/usr/local/bin", "/opt/slurm/bin")
_DAEMONS = ("slurmd", "slurmstepd")
_MOST_PARENTS = 12  # launcher, time limit, the site's own scripts


def command(name: str, folder: str) -> str | None:
    """Path of a command of Slurm's in `folder`, or, where that is empty, wherever it is."""
    paths = (os.path.join(place, name) for place in ([folder] if folder else _folders()))
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def _folders() -> Iterator[str]:
    yield from _beside(_parents())
    yield from _beside(filter(str.isdecimal, os.listdir("/proc")))  # a sampler has no parents
    yield from USUAL


def _beside(pids: Iterable[str]) -> Iterator[str]:
    """Yield folders beside each slurmd of these processes, another user's excepted."""
    for pid in pids:
        try:
            program = os.readlink(f"/proc/{pid}/exe").partition(" (deleted)")[0]
            owner = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            continue  # it ended, or is another user's
        folder, name = os.path.split(program)
        if name in _DAEMONS and owner in (0, os.geteuid()):
            yield os.path.join(os.path.dirname(folder), "bin")
            yield folder


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
