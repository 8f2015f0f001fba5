"""The utility of each size to a job, from what it measured: one rule, live and replayed. Pure.

A job that has measured nothing gets its smallest size, before all others, to measure there. Others
may grow to GROWS times the GPUs that they have measured: the model knows nothing beyond.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from slurm_ext.model.scaling.goodput import (
    BatchLimits,
    BestBatches,
    GradientNoise,
    IterationTimes,
    configs,
    iteration_times,
)
from slurm_ext.model.scaling.goodput_speed import StepMeasurement, fit
from slurm_ext.policy.elastic.gpu_division import Utility, only

GROWS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputReport:
    """A running job's own measurements."""

    left: float  # iterations at the initial batch that are left
    limits: BatchLimits
    noise: GradientNoise
    steps: tuple[StepMeasurement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticJob:
    """A job whose owner lets it have any size within bounds."""

    name: str
    least: int
    most: int
    held: int  # GPUs now; 0: it waits
    arrival_s: float
    report: GoodputReport | None


def utility_of(job: ElasticJob, sizes: tuple[int, ...], per_node: int) -> Utility:
    """Utility of one job at each size; `sizes` are GPUs, ascending."""
    report = job.report
    if report is None or not report.steps:
        return _first(job, sizes)
    most = max(job.held, GROWS * max(step.gpus for step in report.steps))
    utility = Utility(
        name=job.name,
        goodput=best_batches(report, sizes, per_node).goodput,
        held=job.held,
        left=max(report.left, 1e-9),
        arrival_s=job.arrival_s,
    )
    return only(utility, sizes, job.least, min(job.most, most))


def best_batches(report: GoodputReport, sizes: tuple[int, ...], per_node: int) -> BestBatches:
    """The best batch of each size, and its goodput, by what the job has measured."""
    return _best_batches(report.steps, report.limits, report.noise, sizes, per_node)


@lru_cache(maxsize=1024)
def _best_batches(
    steps: tuple[StepMeasurement, ...],
    limits: BatchLimits,
    noise: GradientNoise,
    sizes: tuple[int, ...],
    per_node: int,
) -> BestBatches:
    """Kept until an epoch ends: only the work that is left changes all the time."""
    return _iteration_times(steps, limits, sizes, per_node).best(noise)


@lru_cache(maxsize=1024)
def _iteration_times(
    steps: tuple[StepMeasurement, ...], limits: BatchLimits, sizes: tuple[int, ...], per_node: int
) -> IterationTimes:
    """Kept until the job has measured more: its gradients change far more often."""
    tried = configs(limits, sizes, per_node)
    return iteration_times(fit(steps), limits, tried, len(sizes))


def _first(job: ElasticJob, sizes: Sequence[int]) -> Utility:
    """A waiting job gets its smallest size; a running one keeps what it has."""
    able = [size for size in sizes if job.least <= size <= job.most]
    size = job.held or (able[0] if able else 0)
    goodput = (np.array(sizes) == size).astype(np.float64)
    return Utility(name=job.name, goodput=goodput, held=job.held, left=0.0, arrival_s=job.arrival_s)
