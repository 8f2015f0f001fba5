"""Memory that jobs need on a node: requested, or used where that was more. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from slurm_ext.control.coscheduling.jobs import SharingJobs
from slurm_ext.core.units import MIB
from slurm_ext.policy.colocation.choose_pairs import Candidate
from slurm_ext.slurm.records import JobInfo, NodeInfo

NOT_TOLD_MIB = 1  # Slurm's RealMemory where slurm.conf has none
HeldMemory = Callable[
    [str], float
]  # bytes that the job of a solo key held at most; 0: not measured


def with_needs(jobs: SharingJobs, used: HeldMemory) -> SharingJobs:
    """Return the jobs with the memory that each needs, also where it requested less."""
    return replace(
        jobs,
        waiting=tuple(_needing(candidate, jobs.infos, used) for candidate in jobs.waiting),
        running=tuple(_needing(candidate, jobs.infos, used) for candidate in jobs.running),
    )


def room(nodes: Iterable[NodeInfo]) -> float | None:
    """Bytes of the smallest of the nodes; None where one has not said how much it has."""
    sizes = [node.mem_mib for node in nodes]
    return min(sizes) * MIB if sizes and min(sizes) > NOT_TOLD_MIB else None


def _needing(candidate: Candidate, infos: Mapping[str, JobInfo], used: HeldMemory) -> Candidate:
    requested = (infos[candidate.job].mem_mib or 0) * MIB
    need = max(requested, used(candidate.solo.key) if candidate.solo.key else 0.0)
    return replace(candidate, solo=replace(candidate.solo, mem_bytes=need))
