"""What a job that told what it measured would make of each size: one rule, live and replayed. Pure.

A job that has measured nothing gets its smallest size, before all others, to measure there. Others
may grow to GROWS times the GPUs that they have measured: beyond, a model from nowhere would say.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_ext.model.scaling.goodput import BatchLimits, GradientNoise, configs, iteration_times
from slurm_ext.model.scaling.goodput_speed import StepMeasurement, fit
from slurm_ext.policy.elastic.gpu_division import Utility, only

GROWS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputReport:
    """A running job's own account of itself."""

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
    """Of one job. `sizes` are GPUs, ascending."""
    if job.report is None or not job.report.steps:
        return _first(job, sizes)
    report = job.report
    tried = configs(report.limits, sizes, per_node)
    best = iteration_times(fit(report.steps), report.limits, tried, len(sizes)).best(report.noise)
    most = max(job.held, GROWS * max(step.gpus for step in report.steps))
    found = Utility(
        name=job.name,
        goodput=best.goodput,
        held=job.held,
        left=max(report.left, 1e-9),
        arrival_s=job.arrival_s,
    )
    return only(found, sizes, job.least, min(job.most, most))


def _first(job: ElasticJob, sizes: Sequence[int]) -> Utility:
    """One that waits gets its smallest size; one that runs keeps what it has."""
    able = [size for size in sizes if job.least <= size <= job.most]
    size = job.held or (able[0] if able else 0)
    goodput = (np.array(sizes) == size).astype(np.float64)
    return Utility(name=job.name, goodput=goodput, held=job.held, left=0.0, arrival_s=job.arrival_s)
