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


# The kernel's own weight of a group: Documentation/admin-guide/cgroup-v2, scheduler/sched-design.
V1_USUAL, V1_RANGE = 1024, (2, 262144)


V2_USUAL, V2_RANGE = 100, (1, 10000)


class Weight(CgroupLimit):
    """One job's weight against others."""

    def give(self, cores: float, mean_cores: float) -> None:
        """A part of the CPUs in proportion to `cores`. Raises GoneError or OSError.

        In a group of ours a core weighs as much as one busy process beside it does. Slurm's groups
        weigh all alike, whatever they have: there a job of `mean_cores`, the mean of those that
        are given a weight, keeps the usual one, as have those that are not.
        """
        folder = enter(self.kept, self._place)
        if self.kept["own"]:
            write(folder, "cpu.shares", _within(V1_USUAL * cores, V1_RANGE))
        else:
            write(folder, "cpu.weight", _within(V2_USUAL * cores / mean_cores, V2_RANGE))

    def restore(self) -> bool:
        """By the same file (see Means)."""
        return leave(self.kept, "cpu.weight")

    def _found(self) -> dict[str, Any]:
        folder = self._place.v2_folder()
        if folder is not None:
            return slurms(folder, "cpu.weight")
        below_users = (self._place.v1_folder("cpu"), self._place.v1_folder("cpuacct"))
        if any(slurms(folder, "cpu.shares") for folder in below_users):
            return {}
        return ours(self._place, "cpu", "cpu.shares")


def _within(value: float, limits: tuple[int, int]) -> str:
    return str(min(limits[1], max(limits[0], round(value))))
