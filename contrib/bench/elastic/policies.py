"""Elastic rules on the product's policies: ours with learned models, and what it is compared with.

What a learned rule sees of a job: its owner's limits, how many epochs it was declared to be and how
far it is, and what this very run has measured: seconds computing and synchronising at each config
so far, the gradient's square and variance now. No table, no other job. A job that has measured
nothing gets one GPU, first of all; it may grow to GROWS times the GPUs that it has measured.

Fixed batches (as tuned by the workload, or the untuned initial one) and throughput (a sample is
worth one at any batch) run on the same speed model and the same division. Saxena et al.'s objective
is the sum of speedups. An oracle reads the tables: the bound of what learning can give.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from contrib.bench.common.arrays import Array
from contrib.bench.elastic.baselines import split, split_over
from contrib.bench.elastic.replay import Batch, Job
from slurm_ext.model.scaling import goodput
from slurm_ext.model.scaling.goodput_speed import StepMeasurement, fit
from slurm_ext.policy.elastic import gpu_division, placement
from slurm_ext.policy.elastic.optimiser import GpuBudget, divided

GROWS = 4
MOST_GPUS = 64  # of one job, as published


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Which rule it is."""

    objective: str = "goodput"  # goodput | throughput | tuned batch | initial batch
    oracle: bool = False
    declared: bool = True  # whether a job's epochs are known; else it lasts as long again as it has
    terms: gpu_division.DivisionTerms = field(default_factory=gpu_division.DivisionTerms)
    optimiser: str = "dp"  # sizes of evolution are not those that are placed here


class Elastic:
    """One rule; it keeps only what it has fitted."""

    def __init__(self, kind: Kind, nodes: int = 16, per_node: int = 4) -> None:
        self.kind, self.nodes, self.per_node = kind, nodes, per_node
        self.sizes = gpu_division.sizes_of(nodes * per_node, per_node, MOST_GPUS)
        self.told: dict[str, tuple[int, goodput.IterationTimes]] = {}
        self.answers: dict[str, tuple[object, goodput.BestBatches]] = {}

    def place(self, now_s: float, jobs: Sequence[Job]) -> dict[str, dict[int, int]]:
        """The division, placed."""
        del now_s
        wishes = [self.wish(job) for job in jobs]
        gpus = self.nodes * self.per_node
        board = GpuBudget(gpus=gpus, per_node=self.per_node)
        sizes = divided(self.kind.optimiser, wishes, self.sizes, board, self.kind.terms)
        held = {job.name: job.nodes for job in jobs if job.nodes}
        return placement.place(sizes, held, self.nodes, self.per_node)

    def wish(self, job: Job) -> gpu_division.Utility:
        """What the job would make of each size, as far as it may grow."""
        most = (
            MOST_GPUS if self.kind.oracle else GROWS * max((k[0] for k in job.measured), default=0)
        )
        goodput_ = np.where(np.array(self.sizes) <= max(1, most), self.best(job).goodput, 0.0)
        return gpu_division.Utility(
            name=job.name,
            goodput=goodput_,
            held=job.gpus,
            left=self._left(job),
            arrival_s=job.asked.arrival_s,
        )

    def _left(self, job: Job) -> float:
        if not (job.measured or self.kind.oracle):
            return 0.0
        if not self.kind.declared:
            return float(job.progress)
        return float(job.application.ends[-1] - job.progress)

    def best(self, job: Job) -> goodput.BestBatches:
        """The best batch at each size; kept until something new is measured."""
        key = (len(job.measured), job.epoch, job.gradients)
        if job.name not in self.answers or self.answers[job.name][0] != key:
            self.answers[job.name] = (key, self._best(job))
        return self.answers[job.name][1]

    def _best(self, job: Job) -> goodput.BestBatches:
        if not job.measured and not self.kind.oracle:
            return _unknown(len(self.sizes))
        return self._foretold(job).best(self._noise(job))

    def _noise(self, job: Job) -> goodput.GradientNoise:
        if self.kind.objective == "throughput":
            return goodput.GradientNoise(square=0.0, variance=1.0)
        square, variance = job.gradients or job.application.gradients(job.application.batches[0], 0)
        return goodput.GradientNoise(square=square, variance=variance)

    def _foretold(self, job: Job) -> goodput.IterationTimes:
        """Fitted again where a new config was measured."""
        count = 0 if self.kind.oracle else len(job.measured)
        if job.name not in self.told or self.told[job.name][0] != count:
            speed = TrueSpeed(job) if self.kind.oracle else fit(_steps(job))
            limits, batch = limits_of(job), self._fixed(job)
            configs = goodput.configs(limits, self.sizes, self.per_node)
            if batch is not None:
                configs = self._only(job, batch)
            told = goodput.iteration_times(speed, limits, configs, len(self.sizes))
            self.told[job.name] = (count, told)
        return self.told[job.name][1]

    def _fixed(self, job: Job) -> int | None:
        batches = {"tuned batch": job.asked.batch, "initial batch": job.application.batches[0]}
        return batches.get(self.kind.objective)

    def _only(self, job: Job, batch: int) -> goodput.Configs:
        """One config a size, where each GPU has its least batch."""
        fits = [
            gpus for gpus in self.sizes if gpus == 1 or gpus * job.application.local[0] <= batch
        ]
        split_ = [(gpus, *split_over(job.application, gpus, batch)) for gpus in fits]
        rows = [(gpus, local, accumulated + 1) for gpus, local, accumulated in split_]
        return goodput.config_table(rows, self.sizes, self.per_node)

    def batch(self, job: Job) -> Batch:
        """The best where it is."""
        batch = self._fixed(job)
        if batch is not None or not (job.measured or self.kind.oracle):
            return split(job, batch or job.application.batches[0])
        best, at = self.best(job), self.sizes.index(job.gpus)
        return int(best.local[at]), int(best.accumulated[at])


class TrueSpeed:
    """The tables themselves: only for rules that are named oracles."""

    def __init__(self, job: Job) -> None:
        self.application = job.application

    def steps(self, gpus: Array, nodes: Array, most: Array, local: Array) -> tuple[Array, Array]:
        """Seconds of computing and of synchronising."""
        del gpus
        places = zip(nodes, most, local, strict=True)
        rows = [self.application.step((int(g),) * int(n), int(m)) for n, g, m in places]
        step, sync = np.array(rows).T
        return step - sync, sync


def limits_of(job: Job) -> goodput.BatchLimits:
    """What the owner allows."""
    app = job.application
    return goodput.BatchLimits(
        initial=app.batches[0],
        most=app.batches[-1],
        local_least=app.local[0],
        local_most=app.local[1],
    )


def _steps(job: Job) -> list[StepMeasurement]:
    return [
        StepMeasurement(gpus=k, nodes=n, most=g, local=m, compute_s=compute, sync_s=sync)
        for (k, n, g, m), (compute, sync) in job.measured.items()
    ]


def _unknown(count: int) -> goodput.BestBatches:
    """Nothing measured: it can only start, on the smallest size."""
    zeros = np.zeros(count, dtype=np.int64)
    return goodput.BestBatches(goodput=np.eye(1, count)[0], local=zeros, accumulated=zeros)


ALL_ALIKE = gpu_division.DivisionTerms(favour=0.0)
ALL_IN = gpu_division.DivisionTerms(favour=0.0, gpus_a_job=1.0)
ADDS_UP = gpu_division.DivisionTerms(adds_up=True, gpus_a_job=0.0)
KINDS: Mapping[str, Kind] = {
    "ours": Kind(),
    "ours, length unknown": Kind(declared=False, terms=ALL_IN),
    "ours, jobs alike": Kind(terms=ALL_ALIKE),
    "tuned batch, sum": Kind(objective="tuned batch", terms=ADDS_UP),
    "tuned batch, short first": Kind(objective="tuned batch"),
    "throughput, sum": Kind(objective="throughput", terms=ADDS_UP),
    "initial batch, sum": Kind(objective="initial batch", terms=ADDS_UP),
    "oracle": Kind(oracle=True),
}
