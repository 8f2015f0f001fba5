"""Work done and makespan of jobs that arrive at a node and end, under divisions of its cores.

Event-based. One GPU a job, first come first served; a job's work is counted in seconds at the rate
of its even share. Each change of a running job's cores costs SWITCH_S seconds of its work.
`unbound` is no policy but a bound for ours: the exact division at every event, free of charge.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from contrib.bench.allocator.baselines import rates
from contrib.bench.allocator.tables import (
    CORES,
    GPUS,
    MIXES,
    SHARE,
    Curve,
    Tables,
    as_offers,
    mixes,
    spread,
)
from slurm_ext.policy.allocator.allocate import allocate
from slurm_ext.policy.allocator.hysteresis import retune
from slurm_ext.policy.allocator.job_demands import JobDemand
from slurm_ext.policy.allocator.max_min_share import proportional

SWITCH_S = 10.0
LOOK_EVERY_S = 30.0
DONE = 1e-9
JOBS = 40
GAP_S = 60.0  # between arrivals, on average: the node stays full
WORK_S = (300.0, 1800.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One job of a series."""

    name: str
    model: str
    at_s: float
    work_s: float


@dataclass(slots=True, kw_only=True)
class Running:
    """A job on the node."""

    job: Arrival
    left: float  # seconds of work at its even share
    cores: int | None = None  # None: it has just started
    rate: float = 0.0


@dataclass(slots=True, kw_only=True)
class Node:
    """State of the node, as a division sees it."""

    curves: Mapping[str, Curve]
    switch_s: float = SWITCH_S  # of a job's work, where its cores change
    now_s: float = 0.0
    running: list[Running] = field(default_factory=list)
    changed_s: float | None = None
    ended: bool = False
    ended_work: float = 0.0  # of jobs that have left
    work_at_last_arrival: float = 0.0
    changes: int = 0

    @property
    def work(self) -> float:
        """Done so far, what changes cost subtracted."""
        return self.ended_work + sum(active.job.work_s - active.left for active in self.running)

    def give(self, cores: Sequence[int]) -> None:
        """Cores in order of the running jobs; who had others before pays."""
        curves = [self.curves[active.job.model] for active in self.running]
        for active, count, rate in zip(self.running, cores, rates(curves, cores), strict=True):
            if active.cores is not None and active.cores != count:
                active.left += self.switch_s * active.rate
                self.changes += 1
            active.cores, active.rate = count, rate / self.curves[active.job.model][SHARE]

    def go_on(self, until_s: float) -> None:
        """Work until then; who is done leaves."""
        for active in self.running:
            active.left -= active.rate * (until_s - self.now_s)
        self.now_s = until_s
        gone = [active for active in self.running if active.left <= DONE]
        self.ended_work += sum(active.job.work_s for active in gone)
        self.ended = self.ended or bool(gone)
        self.running = [active for active in self.running if active.left > DONE]


Division = Callable[[Node], Sequence[int]]
"""Cores of each running job."""


def fixed(node: Node) -> list[int]:
    """Cores that Slurm gives with a GPU."""
    return [SHARE] * len(node.running)


def even(node: Node) -> list[int]:
    """All cores, in equal parts, over the jobs that run."""
    jobs = len(node.running)
    return [CORES // jobs + (place < CORES % jobs) for place in range(jobs)]


def ours(node: Node) -> list[int]:
    """The policy that runs on the nodes."""
    retuned = retune(
        _tenants(node),
        CORES,
        now_s=node.now_s,
        changed_s=node.changed_s,
        switch_cost_s=node.switch_s,
        ended=node.ended,
    )
    node.changed_s = node.now_s if retuned.change else node.changed_s
    return [retuned.allocation.points[active.job.name].units for active in node.running]


def unbound(node: Node) -> list[int]:
    """The exact division at every event, without hysteresis; to be played without a charge."""
    allocation = allocate(_tenants(node), CORES)
    return [allocation.points[active.job.name].units for active in node.running]


def _tenants(node: Node) -> list[JobDemand]:
    shares = proportional({active.job.name: SHARE for active in node.running}, CORES)
    return [_tenant(active, node.curves, shares[active.job.name]) for active in node.running]


def _tenant(active: Running, curves: Mapping[str, Curve], share: int) -> JobDemand:
    points = as_offers(curves[active.job.model])
    has = [point for point in points if point.units == active.cores]
    return JobDemand(
        job=active.job.name, points=points, share_units=share, now=has[0] if has else None
    )


def arrivals(models: Iterable[str], seed: int) -> list[Arrival]:
    """A series of jobs of these models."""
    draw = random.Random(seed)
    jobs: list[Arrival] = []
    at_s = 0.0
    for number, model in enumerate(models):
        work_s = draw.uniform(*WORK_S)
        jobs.append(Arrival(name=f"{number:03d}", model=model, at_s=at_s, work_s=work_s))
        at_s += draw.expovariate(1 / GAP_S)
    return jobs


def play(jobs: Sequence[Arrival], curves: Mapping[str, Curve], divide: Division) -> Node:
    """The node when the last job has ended: `now_s` is the makespan."""
    node = Node(curves=curves, switch_s=0.0 if divide is unbound else SWITCH_S)
    queue = list(jobs)
    while queue or node.running:
        while queue and queue[0].at_s <= node.now_s and len(node.running) < GPUS:
            job = queue.pop(0)
            node.running.append(Running(job=job, left=job.work_s))
        if node.running:
            node.give(divide(node))
        node.ended = False
        node.go_on(_next_s(node, queue))
        if node.now_s <= jobs[-1].at_s:
            node.work_at_last_arrival = node.work
    return node


def _next_s(node: Node, queue: Sequence[Arrival]) -> float:
    """Time of the next event, or of the next look at the node."""
    moments = [node.now_s + active.left / active.rate for active in node.running]
    moments += [node.now_s + LOOK_EVERY_S] if node.running else []
    moments += [job.at_s for job in queue[:1] if job.at_s > node.now_s]
    return min(moments)


def dynamic(tables: Tables, reading: Callable[[Curve], Curve], seeds: int) -> dict[str, Any]:
    """Series of jobs, each under every policy."""
    curves = {model: reading(curve) for model, curve in tables.curves.items()}
    figures: dict[str, Any] = {}
    for name, weights in MIXES.items():
        drawn = mixes(tables.by_class(), weights, count=seeds, jobs=JOBS, seed=11)
        series = [arrivals(models, seed) for seed, models in enumerate(drawn)]
        nodes = {
            rule: [play(jobs, curves, rule) for jobs in series]
            for rule in (ours, even, fixed, unbound)
        }
        figures[name] = {
            f"over_{rule.__name__}": {
                "throughput": spread(_ratios(nodes[ours], nodes[rule], _throughput)),
                "makespan": spread(_ratios(nodes[ours], nodes[rule], _makespan_s)),
                "unbound_throughput": mean(_ratios(nodes[unbound], nodes[rule], _throughput)),
                "unbound_makespan": mean(_ratios(nodes[unbound], nodes[rule], _makespan_s)),
            }
            for rule in (even, fixed)
        }
        figures[name]["changes_a_series"] = mean(node.changes for node in nodes[ours])
    return figures


def _throughput(node: Node) -> float:
    """Work done until the last job arrived: the same time for every policy."""
    return node.work_at_last_arrival


def _makespan_s(node: Node) -> float:
    return node.now_s


def _ratios(
    mine: Sequence[Node], theirs: Sequence[Node], figure: Callable[[Node], float]
) -> list[float]:
    """Per cent of ours over theirs."""
    return [100 * (figure(a) / figure(b) - 1) for a, b in zip(mine, theirs, strict=True)]
