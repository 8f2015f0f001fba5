"""CPU quotas: `cpu.max` (version 2) or `cpu.cfs_quota_us` (version 1) of a job.

Version 1 keeps its controllers apart, and Slurm makes no group for `cpu` where it is mounted by
itself: there a group of our own holds the job's processes, below the one that they are in.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm_ext.control.errors import GoneError
from slurm_ext.control.place import Place

PERIOD_US = 20_000  # short: a job that used its time up waits milliseconds for the next
LEAST_US = 1000
FIRST, USUAL = 10240, 1024  # cpu.shares
_OWN = "dlqueue"
_ATTEMPTS = 5  # at an empty group: a process may fork while it is moved out


class Quota:
    """One job's quota; `kept` is what undoing it needs, in JSON's terms."""

    def __init__(self, place: Place, kept: dict[str, Any] | None = None) -> None:
        self._place = place
        self.kept = kept or {}

    @property
    def usable(self) -> bool:
        """Whether this job can have a quota here."""
        self.kept = self.kept or _found(self._place)
        return bool(self.kept)

    def give(self, cores: float, *, first: bool = False) -> None:
        """Give the job `cores` cores' worth of time. Raises GoneError or OSError.

        In a group of ours it also saves up what it left unused, for one period, and `first` has it
        served before others.
        """
        folder = Path(self.kept["folder"])
        if self.kept["own"]:
            with suppress(FileExistsError):
                folder.mkdir()
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            _move(folder, self._strangers(folder))
            _tune(folder, "cpu.shares", FIRST if first else USUAL)
            _tune(folder, "cpu.cfs_burst_us", 0)  # never above the quota
        _write(folder, _text(folder, cores))
        if self.kept["own"]:
            _tune(folder, "cpu.cfs_burst_us", round(cores * PERIOD_US))

    def join(self) -> None:
        """Bring processes into our own group that came from elsewhere since."""
        folder = Path(self.kept["folder"])
        if self.kept["own"] and folder.is_dir():
            _move(folder, self._strangers(folder))

    def restore(self) -> bool:
        """As it was before; False where a group of ours cannot go yet, its processes just dying."""
        folder = Path(self.kept["folder"])
        if not folder.is_dir():
            return True
        if self.kept["own"]:
            return _removed(folder, Path(self.kept["home"]))
        with suppress(GoneError):
            _write(folder, self.kept["before"])
        return True

    def _strangers(self, folder: Path) -> set[int]:
        return self._place.pids() - set(_members(folder))


def _removed(folder: Path, home: Path) -> bool:
    for _ in range(_ATTEMPTS):
        _move(home, _members(folder))
        with suppress(OSError):
            folder.rmdir()
            return True
    return False


def _found(place: Place) -> dict[str, Any]:
    """Slurm's own group of the job where it has the file, else one of ours; empty: neither."""
    for folder in (place.v2_folder(), place.v1_folder("cpu"), place.v1_folder("cpuacct")):
        before = None if folder is None else _read(folder)
        if before is not None:
            return {"folder": str(folder), "before": before, "own": False}
    home = _home(place)
    if home is None:
        return {}
    own = home / f"{_OWN}_{place.node}_{place.job_id}"
    return {"folder": str(own), "home": str(home), "own": True}


def _home(place: Place) -> Path | None:
    """Where the job's processes are in a `cpu` hierarchy of version 1."""
    root = Path(place.mount, "cpu")
    if not (root / "cpu.cfs_period_us").exists() or not os.access(root, os.W_OK):
        return None
    for pid in sorted(place.pids()):
        with suppress(OSError):
            for line in Path(place.proc, str(pid), "cgroup").read_text().splitlines():
                _, names, path = line.split(":", 2)
                if "cpu" in names.split(","):
                    return root / path.partition(f"/{_OWN}_")[0].lstrip("/")
    return None


def _text(folder: Path, cores: float) -> str:
    if _is_v2(folder):
        return f"{max(LEAST_US, round(cores * PERIOD_US))} {PERIOD_US}"
    period_us = int((folder / "cpu.cfs_period_us").read_text())
    return str(max(LEAST_US, round(cores * period_us)))


def _tune(folder: Path, name: str, value: int) -> None:
    """What makes a quota gentler, where this kernel has it."""
    with suppress(OSError):
        (folder / name).write_text(str(value))


def _read(folder: Path) -> str | None:
    with suppress(OSError):
        return (folder / _name(folder)).read_text().strip()
    return None


def _write(folder: Path, text: str) -> None:
    try:
        (folder / _name(folder)).write_text(text)
    except FileNotFoundError:
        raise GoneError(f"{folder} is gone") from None
    except OSError as error:
        raise OSError(error.errno, f"{text!r} refused: {error.strerror}", str(folder)) from None


def _name(folder: Path) -> str:
    return "cpu.max" if _is_v2(folder) else "cpu.cfs_quota_us"


def _is_v2(folder: Path) -> bool:
    return (folder / "cgroup.controllers").exists()


def _members(folder: Path) -> Iterator[int]:
    with suppress(OSError):
        yield from map(int, (folder / "cgroup.procs").read_text().split())


def _move(folder: Path, pids: Iterable[int]) -> None:
    """Their children follow them from now on; who has ended meanwhile is no loss."""
    for pid in pids:
        with suppress(OSError):
            (folder / "cgroup.procs").write_text(str(pid))
