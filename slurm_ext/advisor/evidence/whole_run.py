"""Predictions of the whole run: a training has more wall time than its steady batches. Pure.

The curve predicts the steady rate of one process. What is told, and held against what was achieved
(the view `outcomes`), is of the whole run: its first epoch and warm-up as earlier runs had them,
and the start of its workers on every pass. Stored predictions are one process's share of that
rate; people read the job's, which is that times `ranks`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING

from slurm_ext.core.records import Interval, LoaderRun, Prediction, Shape

if TYPE_CHECKING:  # imported with the first evidence
    from slurm_ext.model.throughput.estimate import Estimate

START_S = 0.02  # of a worker, where no run of the job started one: forking a process with torch
_MOST_PREDICTORS, _MOST_SHAPES = 128, 128  # kept: some 20 MiB at most; one decision asks for 120


@dataclass(frozen=True, slots=True)
class WholeRun:
    """Seconds that the whole run takes beside its steady batches, for each sample."""

    ranks: int = 1  # training processes of the job
    beside_s: float = 0.0
    start_s: float = 0.0  # for each worker

    def of(self, steady: Prediction) -> Prediction:
        """The prediction for the whole run; `steady` where nothing is beside."""
        lost_s = self.beside_s + self.start_s * steady.shape.num_workers
        if not lost_s:
            return steady
        rate, low, high = (
            value / (1 + lost_s * value)
            for value in (steady.samples_per_s, steady.interval.low, steady.interval.high)
        )
        alone = steady.alone_samples_per_s
        return replace(
            steady,
            samples_per_s=rate,
            interval=Interval(low, high, steady.interval.level),
            alone_samples_per_s=alone and alone / (1 + lost_s * alone),
        )


@lru_cache(maxsize=_MOST_PREDICTORS)
def whole_run_predictor(
    estimated: "Estimate", node_cores: int | None, factor: float, whole: WholeRun
) -> Callable[[Shape], Prediction]:
    """Predict each shape once: all jobs that rest on the same runs ask for the same few."""
    from slurm_ext.model.throughput.estimate import shape_predictor

    steady = shape_predictor(estimated, node_cores=node_cores, factor=factor)
    if not (whole.beside_s or whole.start_s):
        return lru_cache(maxsize=_MOST_SHAPES)(steady)
    return lru_cache(maxsize=_MOST_SHAPES)(lambda shape: whole.of(steady(shape)))


def whole_run_of(runs: Sequence[LoaderRun]) -> WholeRun:
    """Read it off a job's own runs, newest first; nothing where none knows its whole rate."""
    known = [run for run in runs if run.doubt is None and run.whole_samples_per_s and run.ranks]
    ranks = next((run.ranks for run in runs if run.ranks), 1)
    if not known:
        return WholeRun(ranks)
    return WholeRun(ranks, median(map(_beside_s, known)), median(map(_start_s, known)))


def _beside_s(run: LoaderRun) -> float:
    whole_s = (run.ranks or 1) / (run.whole_samples_per_s or run.samples_per_s)
    starts_s = _start_s(run) * run.workers
    return max(0.0, whole_s - 1 / run.samples_per_s - starts_s)


def _start_s(run: LoaderRun) -> float:
    if not run.epoch_samples:
        return 0.0
    each_s = run.startup_s / run.workers if run.workers and run.startup_s is not None else START_S
    return each_s / run.epoch_samples
