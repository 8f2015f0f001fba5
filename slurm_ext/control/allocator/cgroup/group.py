"""A job's control group: Slurm's own, or one of ours that holds the job's processes.

Version 1 keeps its controllers apart, and Slurm makes no group for `cpu` where it is mounted by
itself, nor any for `blkio`: there a group of our own is made below the one that the job is in.
What is kept of one, in JSON's terms: `folder`; `own`; `home` of ours, `before` of Slurm's.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, JobLocation

_OWN = "dlqueue"
_ATTEMPTS = 5  # at an empty group: a process may fork while it is moved out


class CgroupLimit(ABC):
    """One job's limit by a control group; `kept` is what undoing it needs, in JSON's terms."""

    def __init__(self, place: JobLocation, kept: dict[str, Any] | None = None) -> None:
        self._place = place
        self.kept = kept or {}

    @property
    def usable(self) -> bool:
        """True if this limit can be set for this job."""
        self.kept = self.kept or self._found()
        return bool(self.kept)

    def join(self) -> None:
        """Bring processes into our own group that came from elsewhere since."""
        join(self.kept, self._place)

    @abstractmethod
    def restore(self) -> bool:
        """As it was before; False where a group of ours cannot go yet, its processes just dying."""

    @abstractmethod
    def _found(self) -> dict[str, Any]:
        """First value of `kept`, for Slurm's group or one of ours; empty if there is neither."""


def slurms(folder: Path | None, name: str) -> dict[str, Any]:
    """Slurm's group as it is, where it has the file `name`; empty: it has not."""
    before = None if folder is None else read(folder, name)
    return {} if before is None else {"folder": str(folder), "before": before, "own": False}


def ours(place: JobLocation, controller: str, name: str) -> dict[str, Any]:
    """One that can be made in a version 1 hierarchy with the file `name`; empty: none can."""
    home = _home(place, controller, name)
    if home is None:
        return {}
    own = home / f"{_OWN}_{place.node}_{place.job_id}"
    return {"folder": str(own), "home": str(home), "own": True}


def enter(kept: Mapping[str, Any], place: JobLocation) -> Path:
    """Make it, where it is ours, with the job's processes in it."""
    folder = Path(kept["folder"])
    if kept["own"]:
        with suppress(FileExistsError):
            folder.mkdir()
        join(kept, place)
    return folder


def join(kept: Mapping[str, Any], place: JobLocation) -> None:
    """Bring processes into one of ours that came from elsewhere since."""
    folder = Path(kept["folder"])
    if kept["own"] and folder.is_dir():
        _move(folder, place.pids() - set(_members(folder)))


def leave(kept: Mapping[str, Any], name: str) -> bool:
    """As it was; False where one of ours cannot go yet, its processes just dying."""
    folder = Path(kept["folder"])
    if not folder.is_dir():
        return True
    if kept["own"]:
        return _removed(folder, Path(kept["home"]))
    with suppress(JobGoneError):
        write(folder, name, kept["before"])
    return True


def is_v2(folder: Path) -> bool:
    """True for a cgroup of version 2."""
    return (folder / "cgroup.controllers").exists()


def read(folder: Path, name: str) -> str | None:
    """The file's text; None where there is none."""
    with suppress(OSError):
        return (folder / name).read_text().strip()
    return None


def write(folder: Path, name: str, text: str) -> None:
    """Raises JobGoneError, or OSError that names what was refused."""
    try:
        (folder / name).write_text(text)
    except FileNotFoundError:
        raise JobGoneError(f"{folder} is gone") from None
    except OSError as error:
        raise OSError(error.errno, f"{text!r} refused: {error.strerror}", str(folder)) from None


def _home(place: JobLocation, controller: str, name: str) -> Path | None:
    """Group of the job's processes in a version 1 hierarchy."""
    root = Path(place.mount, controller)
    if not (root / name).exists() or not os.access(root, os.W_OK):
        return None
    for pid in sorted(place.pids()):
        with suppress(OSError):
            for line in Path(place.proc, str(pid), "cgroup").read_text().splitlines():
                _, names, path = line.split(":", 2)
                if controller in names.split(","):
                    return root / path.partition(f"/{_OWN}_")[0].lstrip("/")
    return None


def _removed(folder: Path, home: Path) -> bool:
    for _ in range(_ATTEMPTS):
        _move(home, _members(folder))
        with suppress(OSError):
            folder.rmdir()
            return True
    return False


def _members(folder: Path) -> Iterator[int]:
    with suppress(OSError):
        yield from map(int, (folder / "cgroup.procs").read_text().split())


def _move(folder: Path, pids: Iterable[int]) -> None:
    """Their children follow them from now on; who has ended meanwhile is no loss."""
    for pid in pids:
        with suppress(OSError):
            (folder / "cgroup.procs").write_text(str(pid))
