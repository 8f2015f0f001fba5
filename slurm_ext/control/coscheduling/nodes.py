"""Nodes where jobs may start, by state and partition, and the CPUs in use there. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slurm_ext.control.coscheduling.jobs import SharingJobs
from slurm_ext.slurm.hostlist import expand
from slurm_ext.slurm.records import JobInfo, NodeInfo

# Words in the state of a node where Slurm starts no job; nor where it is silent, unless it sleeps.
CLOSED = ("DRAIN", "FAIL", "MAINT", "RESERVED", "POWERING")
SILENT = "NOT_RESPONDING"
_UP = ("IDLE", "MIXED", "ALLOCATED")


def is_open(node: NodeInfo) -> bool:
    """True if a job may start there; Slurm wakes a node that is powered down."""
    silent = SILENT in node.state and "POWERED_DOWN" not in node.state
    closed = silent or any(word in node.state for word in CLOSED)
    return node.state.startswith(_UP) and not closed


def with_nodes(jobs: SharingJobs, open_nodes: Sequence[NodeInfo]) -> SharingJobs:
    """Return the jobs with the open nodes of each waiting one's partitions."""
    partitions = {jobs.infos[candidate.job].partition for candidate in jobs.waiting}
    nodes = {partition: _of(partition, open_nodes) for partition in partitions}
    waiting = (replace(c, nodes=nodes[jobs.infos[c.job].partition]) for c in jobs.waiting)
    return replace(jobs, waiting=tuple(waiting))


def _of(partition: str, nodes: Iterable[NodeInfo]) -> frozenset[str] | None:
    """Names of a job's nodes; None where its partition is not known."""
    names = set(partition.split(","))
    theirs = (node.name for node in nodes if names & set(node.partitions))
    return frozenset(theirs) if partition else None


def cpus_in_use(jobs: Iterable[JobInfo]) -> list[tuple[str, int]]:
    """CPUs of jobs by node; Slurm does not say how a job on several divides: evenly, rounded up."""
    used: list[tuple[str, int]] = []
    for job in jobs:
        if job.state != "PENDING" and not job.ended:
            names = expand(job.nodes)
            used += [(name, -(-(job.cpus or 0) // len(names))) for name in names]
    return used
