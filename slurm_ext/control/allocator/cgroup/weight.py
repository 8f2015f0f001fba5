"""CPU weights: `cpu.weight` (version 2) or `cpu.shares` (version 1) of a job.

A weight is what a job is sure of while all want the CPUs; it may have what others leave as well.
It holds among siblings only: where Slurm (version 1) puts a user's jobs below one group of that
user, there is none, and a quota has to do.
"""

from typing import Any

from slurm_ext.control.allocator.cgroup.group import CgroupLimit, enter, leave, ours, slurms, write

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
