"""CPU quotas: `cpu.max` (version 2) or `cpu.cfs_quota_us` (version 1) of a job."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm_ext.control.allocator.cgroup.group import (
    CgroupLimit,
    enter,
    is_v2,
    leave,
    ours,
    slurms,
    write,
)

PERIOD_US = 20_000  # short: a job that used its time up waits milliseconds for the next
LEAST_US = 1000
FIRST, USUAL = 10240, 1024  # cpu.shares


class Quota(CgroupLimit):
    """One job's quota."""

    def give(self, cores: float, *, first: bool = False) -> None:
        """Give the job `cores` cores' worth of time; `first`: in a group of ours before others.

        Raises GoneError or OSError.
        """
        self.cap(cores)
        if self.kept["own"]:
            _tune(Path(self.kept["folder"]), "cpu.shares", FIRST if first else USUAL)

    def cap(self, cores: float) -> None:
        """Never more than `cores` cores' worth of time. Raises GoneError or OSError.

        In a group of ours it saves up what it left unused, for one period.
        """
        folder = enter(self.kept, self._place)
        if self.kept["own"]:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            _tune(folder, "cpu.cfs_burst_us", 0)  # never above the quota
        write(folder, _name(folder), _text(folder, cores))
        if self.kept["own"]:
            _tune(folder, "cpu.cfs_burst_us", round(cores * PERIOD_US))

    def restore(self) -> bool:
        """By the same file (see Means)."""
        return leave(self.kept, _name(Path(self.kept["folder"])))

    def _found(self) -> dict[str, Any]:
        place = self._place
        for folder in (place.v2_folder(), place.v1_folder("cpu"), place.v1_folder("cpuacct")):
            kept = {} if folder is None else slurms(folder, _name(folder))
            if kept:
                return kept
        return ours(place, "cpu", "cpu.cfs_period_us")


def _text(folder: Path, cores: float) -> str:
    if is_v2(folder):
        return f"{max(LEAST_US, round(cores * PERIOD_US))} {PERIOD_US}"
    period_us = int((folder / "cpu.cfs_period_us").read_text())
    return str(max(LEAST_US, round(cores * period_us)))


def _tune(folder: Path, name: str, value: int) -> None:
    """Set an option that makes a quota gentler, where this kernel has it."""
    with suppress(OSError):
        (folder / name).write_text(str(value))


def _name(folder: Path) -> str:
    return "cpu.max" if is_v2(folder) else "cpu.cfs_quota_us"
