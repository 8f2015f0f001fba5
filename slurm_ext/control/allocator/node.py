"""Shares and units of one node: what Slurm gave, in pieces of what the machine has. Pure."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from slurm_ext.control.allocator.cgroup.cpu import AFFINITY, CPUSET, QUOTA
from slurm_ext.control.allocator.jobs import RunningJob
from slurm_ext.node.kernel.cgroup import MOUNT

NEAR = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Real cores, CPUs as Slurm counts them, and the grain."""

    real_cores: int
    slurm_cpus: int
    grain_cores: float
    lends: bool = False  # by weights, so that idle CPUs are used; else by quotas

    @property
    def scale(self) -> float:
        """Real cores in one of Slurm's CPUs: below 1 where slurm.conf has more than there are."""
        return min(1.0, self.real_cores / self.slurm_cpus)

    def units(self, cpus: int) -> int:
        """Whole grains in so many of Slurm's CPUs."""
        return int(cpus * self.scale / self.grain_cores + NEAR)

    def why_not(self, running: RunningJob) -> str | None:
        """Reason in one clause why a job is left alone; None if it may be controlled."""
        job = running.job
        if job.why_not is not None:
            return job.why_not
        if not running.summaries:
            return "no training that the probe knows runs in it"
        if job.cpus >= self.slurm_cpus:
            return "it has the node to itself"
        share = job.cpus * self.scale / self.grain_cores
        if share < 1 - NEAR or abs(share - round(share)) > NEAR:
            return (
                f"its share of {job.cpus * self.scale:g} cores is no multiple of"
                f" control.grain_cores = {self.grain_cores:g}"
            )
        return None


def slurm_cpus(counted: int | None, real_cores: int, running: Iterable[RunningJob]) -> int:
    """The node's CPUs by Slurm; where it does not answer, at least what the jobs here were given.

    Too large a count only makes shares smaller than they are, so it is never guessed upwards.
    """
    allocated = sum(running_job.job.cpus for running_job in running)
    return max(counted or real_cores, allocated, 1)


def node_mechanisms(mount: str = MOUNT) -> tuple[str, ...]:
    """Of quota, cpuset and affinity those that can be set here.

    A cpuset is used for jobs that Slurm constrains to cores (ConstrainCores=yes) only.
    """
    root = Path(mount)
    controllers = _text(root / "cgroup.controllers").split()
    quota = "cpu" in controllers or os.access(root / "cpu" / "cpu.cfs_quota_us", os.W_OK)
    cpuset = "cpuset" in controllers or os.access(root / "cpuset" / "cpuset.cpus", os.W_OK)
    return (*((QUOTA,) if quota else ()), *((CPUSET,) if cpuset else ()), AFFINITY)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
