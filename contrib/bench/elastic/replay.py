"""Replays a workload under a rule that says every minute who runs on which GPUs.

The clock of the published simulator: a round of 60 s; then the rule decides for the jobs that have
arrived; whoever's placement changes makes no progress for the next 30 s of running, its first start
included. A job's batch may change at the end of an epoch at no cost. A job that ends within a round
gives its GPUs back at the round's end. Two jobs of several nodes on one node each lose the
share `interference` of their progress. All assumptions are the published simulator's.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from contrib.bench.elastic import tables

ROUND_S, RESTART_S = 60.0, 30.0
Nodes = Mapping[int, int]  # node -> GPUs on it


@dataclass(eq=False, kw_only=True)
class Job:
    """One job as the replay knows it. A rule with learned models looks only at `seen`."""

    asked: tables.Asked
    application: tables.Application
    nodes: Nodes = field(default_factory=dict)
    local: int = 0
    accumulated: int = 0  # micro-steps before the one that synchronises
    waits_s: float = 0.0
    progress: float = 0.0
    epoch: int = 0
    restarts: int = -1
    service_s: float = 0.0  # GPU-seconds
    end_s: float | None = None
    measured: dict[tuple[int, int, int, int], tuple[float, float]] = field(default_factory=dict)
    gradients: tuple[float, float] | None = None  # square, variance: measured last

    @property
    def name(self) -> str:
        """Of the workload."""
        return str(self.asked.name)

    @property
    def gpus(self) -> int:
        """Held now."""
        return sum(self.nodes.values())


Batch = tuple[int, int]  # batch of a GPU, micro-steps before the one that synchronises


class Rule(Protocol):
    """What decides."""

    def place(self, now_s: float, jobs: Sequence[Job]) -> dict[str, dict[int, int]]:
        """GPUs by node for each job that shall run."""

    def batch(self, job: Job) -> Batch:
        """For the job where it runs now."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out; completion times in seconds by job."""

    jct_s: dict[str, float]
    restarts: float  # mean of a job
    rounds: int

    @property
    def mean_s(self) -> float:
        """Mean completion time."""
        return sum(self.jct_s.values()) / max(1, len(self.jct_s))


def replay(
    asked: Sequence[tables.Asked],
    folder: Mapping[str, tables.Application],
    rule: Rule,
    *,
    interference: float = 0.0,
    until_s: float = float("inf"),
    told: Callable[[float], None] = lambda _: None,
    nodes: int = 16,
    per_node: int = 4,
) -> Outcome:
    """Runs it to the last job's end, or `until_s`."""
    jobs = [Job(asked=one, application=folder[one.application]) for one in asked]
    now_s, rounds = 0.0, 0
    while now_s < until_s and any(job.end_s is None for job in jobs):
        alive = [job for job in jobs if job.end_s is None and job.asked.arrival_s <= now_s]
        slowed = _sharing(alive)
        for job in alive:
            _run(job, now_s, rule, 1.0 - interference * (job.name in slowed))
        now_s, rounds = now_s + ROUND_S, rounds + 1
        alive = [job for job in jobs if job.end_s is None and job.asked.arrival_s <= now_s]
        _apply(alive, rule, rule.place(now_s, alive), (nodes, per_node))
        told(now_s)
    ended = [job for job in jobs if job.end_s is not None and job.end_s <= until_s]
    return Outcome(
        jct_s={job.name: (job.end_s or 0.0) - job.asked.arrival_s for job in ended},
        restarts=sum(max(0, job.restarts) for job in jobs) / len(jobs),
        rounds=rounds,
    )


def _sharing(jobs: Sequence[Job]) -> set[str]:
    """Jobs of several nodes that share a node with another one."""
    several = [job for job in jobs if len(job.nodes) > 1]
    users = Counter(node for job in several for node in job.nodes)
    return {job.name for job in several if any(users[node] > 1 for node in job.nodes)}


def _apply(
    jobs: Sequence[Job], rule: Rule, placed: dict[str, dict[int, int]], size: tuple[int, int]
) -> None:
    _check(placed, size)
    for job in jobs:
        nodes = placed.get(job.name, {})
        if nodes == job.nodes:
            continue
        job.nodes = nodes
        if nodes:
            job.waits_s, job.restarts = RESTART_S, job.restarts + 1
            job.local, job.accumulated = rule.batch(job)


def _check(placed: dict[str, dict[int, int]], size: tuple[int, int]) -> None:
    """A rule that gives what is not there would win unfairly."""
    used: Counter[int] = Counter()
    for nodes in placed.values():
        used.update(nodes)
    if any(node >= size[0] or count > size[1] for node, count in used.items()):
        raise RuntimeError(f"the rule gave GPUs that are not there: {placed}")


def _run(job: Job, now_s: float, rule: Rule, share: float) -> None:
    """One round of a job; `share` of its progress is left by interference."""
    left_s = ROUND_S
    if not job.nodes:
        return
    waits = min(job.waits_s, left_s)
    job.waits_s -= waits
    left_s -= waits
    while left_s > 0 and job.end_s is None:
        rate = _measure(job) * share
        goal = float(job.application.ends[job.epoch])
        if job.progress + rate * left_s < goal:
            job.progress += rate * left_s
            left_s = 0
            break
        left_s -= min(left_s, (goal - job.progress) / rate)
        job.progress, job.epoch = goal, job.epoch + 1
        if job.epoch == len(job.application.ends):
            job.end_s = now_s + ROUND_S - left_s
            job.service_s -= left_s * job.gpus
        else:
            job.local, job.accumulated = rule.batch(job)
    job.service_s += ROUND_S * job.gpus
    if job.end_s is not None:
        job.nodes = {}


def _measure(job: Job) -> float:
    """Progress a second, true; the job's own measurements are kept on the way."""
    app, placement = job.application, tuple(job.nodes[node] for node in sorted(job.nodes))
    step_s, sync_s = app.step(placement, job.local)
    batch = job.gpus * job.local * (job.accumulated + 1)
    square, variance = app.gradients(batch, job.epoch)
    key = (job.gpus, len(placement), max(placement), job.local)
    job.measured[key] = (step_s - sync_s, sync_s)
    job.gradients = (square, variance)
    scale = batch / app.batches[0]
    gain = (variance + square) / (variance / scale + square)
    return float(gain / (step_s + job.accumulated * (step_s - sync_s)))
