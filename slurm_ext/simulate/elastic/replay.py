"""Replays a workload under a policy that decides every minute which job runs on which GPUs.

The clock of the published simulator: a round of 60 s; then the policy decides for the jobs that
have arrived. A job whose placement changes makes no progress for the next 30 s of running, its
first start included. A job's batch may change at the end of an epoch at no cost. A job that ends
within a round gives its GPUs back at the round's end. Two jobs of several nodes on one node each
lose the share `interference` of their progress. All assumptions are the published simulator's.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.elastic.applications import Application
from slurm_ext.simulate.elastic.workload import WorkloadJob
from slurm_ext.simulate.replay_result import ReplayResult

ROUND_S, RESTART_S = 60.0, 30.0
GpusByNode = Mapping[int, int]
Placements = dict[str, dict[int, int]]  # job -> node -> GPUs there
Batch = tuple[int, int]  # batch of a GPU, micro-steps before the one that synchronises


@dataclass(eq=False, kw_only=True)
class ReplayedJob:
    """One job as the replay knows it. A policy looks at no table: only at what was measured."""

    submitted: WorkloadJob
    application: Application
    nodes: GpusByNode = field(default_factory=dict)
    local: int = 0
    accumulated: int = 0  # micro-steps before the one that synchronises
    waits_s: float = 0.0  # of its restart, still to come
    progress: float = 0.0
    epoch: int = 0
    restarts: int = -1
    service_s: float = 0.0  # GPU-seconds
    running_s: float = 0.0  # with GPUs
    start_s: float | None = None
    end_s: float | None = None
    measured: dict[tuple[int, int, int, int], tuple[float, float]] = field(default_factory=dict)
    gradients: tuple[float, float] | None = None  # square, variance: measured last

    @property
    def name(self) -> str:
        """Name in the workload."""
        return self.submitted.name

    @property
    def gpus(self) -> int:
        """GPUs that it holds now."""
        return sum(self.nodes.values())


class ElasticPolicy(Protocol):
    """Decides placements and batches."""

    def place(self, now_s: float, jobs: Sequence[ReplayedJob]) -> Placements:
        """GPUs by node for each job that shall run."""

    def batch(self, job: ReplayedJob) -> Batch:
        """Batch of the job where it runs now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticCluster:
    """Equal nodes, and the speed that jobs of several nodes lose where they share one."""

    nodes: int = 16
    per_node: int = 4
    interference: float = 0.0

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.nodes * self.per_node


def replay_elastic(
    workload: Sequence[WorkloadJob],
    applications: Mapping[str, Application],
    policy: ElasticPolicy,
    cluster: ElasticCluster,
    *,
    name: str = "",
    progress: Callable[[int], None] = lambda _ended: None,
) -> ReplayResult:
    """Replay until the last job's end. `progress` is called with the number of ended jobs.

    Raises InputError where the policy starts none of the jobs that are left.
    """
    jobs = [
        ReplayedJob(submitted=job, application=applications[job.application]) for job in workload
    ]
    now_s = min(job.arrival_s for job in workload) // ROUND_S * ROUND_S
    changes: list[tuple[float, int]] = []
    while any(job.end_s is None for job in jobs):
        alive = _alive(jobs, now_s)
        before = sum(job.gpus for job in alive)
        slowed = _sharing(alive)
        for job in alive:
            _run(job, now_s, policy, 1.0 - cluster.interference * (job.name in slowed))
        now_s += ROUND_S
        alive = _alive(jobs, now_s)
        _apply(alive, policy, policy.place(now_s, alive), cluster, now_s)
        after = sum(job.gpus for job in alive)
        changes.append((now_s, after - before))
        ended = sum(job.end_s is not None for job in jobs)
        progress(ended)
        if alive and not after and ended + len(alive) == len(jobs):
            raise InputError(
                name or "policy", f"starts none of the {len(alive)} jobs that are left"
            )
    return _result(jobs, changes, name, cluster.gpus)


def _alive(jobs: Sequence[ReplayedJob], now_s: float) -> list[ReplayedJob]:
    return [job for job in jobs if job.end_s is None and job.submitted.arrival_s <= now_s]


def _result(
    jobs: Sequence[ReplayedJob], changes: Sequence[tuple[float, int]], name: str, gpus: int
) -> ReplayResult:
    """Times since the first submission; a job's duration is the time in which it had GPUs."""
    first_s = min(job.submitted.arrival_s for job in jobs)
    changed_s, steps = np.array(changes, dtype=np.float64).T
    return ReplayResult(
        policy=name,
        submit_s=np.array([job.submitted.arrival_s for job in jobs]) - first_s,
        duration_s=np.array([job.running_s for job in jobs]),
        start_s=np.array([job.start_s for job in jobs], dtype=np.float64) - first_s,
        end_s=np.array([job.end_s for job in jobs], dtype=np.float64) - first_s,
        gpus_in_all=gpus,
        changed_s=changed_s - first_s,
        used=np.cumsum(steps),
        restarts={job.name: job.restarts for job in jobs if job.restarts > 0},
    )


def _sharing(jobs: Sequence[ReplayedJob]) -> set[str]:
    """Jobs of several nodes that share a node with another one."""
    several = [job for job in jobs if len(job.nodes) > 1]
    users = Counter(node for job in several for node in job.nodes)
    return {job.name for job in several if any(users[node] > 1 for node in job.nodes)}


def _apply(
    jobs: Sequence[ReplayedJob],
    policy: ElasticPolicy,
    placements: Placements,
    cluster: ElasticCluster,
    now_s: float,
) -> None:
    _check(placements, cluster)
    for job in jobs:
        nodes = placements.get(job.name, {})
        if nodes == job.nodes:
            continue
        job.nodes = nodes
        if nodes:
            job.start_s = now_s if job.start_s is None else job.start_s
            job.waits_s, job.restarts = RESTART_S, job.restarts + 1
            job.local, job.accumulated = policy.batch(job)


def _check(placements: Placements, cluster: ElasticCluster) -> None:
    """Raise RuntimeError where a policy gives GPUs that are not there: it would win unfairly."""
    used: Counter[int] = Counter()
    for nodes in placements.values():
        used.update(nodes)
    if any(node >= cluster.nodes or count > cluster.per_node for node, count in used.items()):
        raise RuntimeError(f"the policy gave GPUs that are not there: {placements}")


def _run(job: ReplayedJob, now_s: float, policy: ElasticPolicy, share: float) -> None:
    """Run one round of a job; `share` of its progress is left by interference."""
    if not job.nodes:
        return
    waits_s = min(job.waits_s, ROUND_S)
    job.waits_s -= waits_s
    left_s = ROUND_S - waits_s
    while left_s > 0 and job.end_s is None:
        rate = _measure(job) * share
        goal = float(job.application.ends[job.epoch])
        if job.progress + rate * left_s < goal:
            job.progress += rate * left_s
            left_s = 0
            break
        left_s -= min(left_s, (goal - job.progress) / rate)
        job.progress, job.epoch = goal, job.epoch + 1
        if job.epoch < len(job.application.ends):
            job.local, job.accumulated = policy.batch(job)
        else:
            job.end_s = now_s + ROUND_S - left_s
    ran_s = ROUND_S - (left_s if job.end_s is not None else 0.0)
    job.running_s += ran_s
    job.service_s += ran_s * job.gpus
    if job.end_s is not None:
        job.nodes = {}


def _measure(job: ReplayedJob) -> float:
    """Progress a second, true; the job's own measurements are kept on the way."""
    application, placement = job.application, tuple(job.nodes[node] for node in sorted(job.nodes))
    step_s, sync_s = application.step(placement, job.local)
    batch = job.gpus * job.local * (job.accumulated + 1)
    square, variance = application.gradients(batch, job.epoch)
    job.measured[job.gpus, len(placement), max(placement), job.local] = (step_s - sync_s, sync_s)
    job.gradients = (square, variance)
    scale = batch / application.batches[0]
    gain = (variance + square) / (variance / scale + square)
    return float(gain / (step_s + job.accumulated * (step_s - sync_s)))
