"""Predictions of the whole run: a training has more wall time than its steady batches. Pure.

The curve predicts the steady rate of one process. What is told, and held against what was achieved
(the view `outcomes`), is of the whole run: its first epoch and warm-up as earlier runs had them,
and the start of its workers on every pass. Stored predictions are one process's share of that
rate; people read the job's, which is that times `ranks`.

Workers start one after the other, and each computes about as long as its start takes before it
can work. Where they share few cores, the next start waits for that: `starts`. In passes of
seconds that is a notable share of the run, so that its doubt widens the interval by that share. A
loader without workers that is given some makes its first batches without them, as a trial; one that
is given more makes its first ones with its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import hypot
from typing import TYPE_CHECKING, Any

from slurm_ext.core.records import Elsewhere, Interval, LoaderRun, Prediction, Shape

if TYPE_CHECKING:  # imported with the first evidence
    from slurm_ext.model.throughput.estimate import Estimate
    from slurm_ext.model.throughput.shape_predictor import ShapePredictor

Shapes = tuple[Sequence[int], Sequence[int]]  # each of the CPUs with each number of workers
START_S = 0.02  # of a worker, where no run of the job started one: forking a process with torch
# Times as long as foretold, or as short, in nine of ten: from other workers or cores, and START_S.
START_FACTOR, UNSEEN_START_FACTOR = 1.9, 3.2
# Batches of the probe's trial, by the script's own workers (probe/lazy_workers.py, streams/): a
# single one makes two, and the two that it was asked for meanwhile; several make their first round.
TRIAL_BATCHES, OF_ONE, OF_SEVERAL = 2, 4, 1
_MOST_PREDICTORS, _MOST_SHAPES, _MOST_ROWS = 128, 128, 4  # kept: some 30 MiB at most


@dataclass(frozen=True, slots=True)
class WholeRun:
    """Seconds that the whole run takes beside its steady batches, for each sample."""

    ranks: int = 1  # training processes of the job
    beside_s: float = 0.0
    start_s: float = 0.0  # for one worker that starts alone
    start_factor: float = START_FACTOR
    trial_s: float = 0.0  # of a loader that is given more workers than
    user_workers: int = 0  # its script has
    per_task: int = 1  # of its training processes, which share a task's cores

    def of(self, steady: Prediction, own: float | None = None) -> Prediction:
        """The prediction for the whole run; `steady` where nothing is beside.

        `own`: cores of one process; None: its part of the shape's.
        """
        cores = own or steady.shape.cpus_per_task / self.per_task
        starts_s = self.start_s * starts(steady.shape.num_workers, cores)
        lost_s = self.beside_s + starts_s + self.trial(steady.shape.num_workers)
        if not lost_s:
            return steady
        other = steady.elsewhere
        return Prediction(  # not by `replace`, which takes longer than all of this
            shape=steady.shape,
            samples_per_s=1 / (1 / steady.samples_per_s + lost_s),
            interval=self._interval(steady, lost_s, starts_s),
            bottleneck=steady.bottleneck,
            level=steady.level,
            runs=steady.runs,
            elsewhere=other
            and Elsewhere(
                1 / (1 / other.samples_per_s + lost_s),
                self._interval(other, lost_s, starts_s),
                other.crowded,
            ),
        )

    def trial(self, workers: float, maximum: Callable[[float, float], float] = max) -> float:
        """Seconds of the trial by which so many workers are later at work than they might be."""
        later = (workers > 0) - self.user_workers / maximum(1.0, workers)
        return self.trial_s * maximum(0.0, later)

    def _interval(self, steady: Prediction | Elsewhere, lost_s: float, starts_s: float) -> Interval:
        """The interval of the whole run: doubts of its steady rate and of its starts together."""
        sample_s, bounds = 1 / steady.samples_per_s, steady.interval
        least_s = hypot(sample_s - 1 / bounds.high, starts_s * (1 - 1 / self.start_factor))
        low = self._low(hypot, steady.samples_per_s, bounds.low, lost_s, starts_s)
        return Interval(low, 1 / (sample_s + lost_s - least_s), bounds.level)

    def _low(
        self, hypot: Callable[[Any, Any], Any], rate: Any, low: Any, lost_s: Any, starts_s: Any
    ) -> Any:
        longer_s = hypot(1 / low - 1 / rate, starts_s * (self.start_factor - 1))
        return 1 / (1 / rate + lost_s + longer_s)

    def of_many(self, steady: "ShapePredictor", shapes: Shapes) -> tuple[Any, Any]:
        """Rates and lower bounds, as arrays with a row for each of the CPUs."""
        import numpy as np

        many: Any = np
        rate, low = steady.ends(*shapes)
        workers = many.array(shapes[1])
        cores = many.array([steady.cores(cpus) for cpus in shapes[0]])[:, None]
        starts_s = self.start_s * starts(workers, cores, many.maximum)
        lost_s = self.beside_s + starts_s + self.trial(workers, many.maximum)
        return 1 / (1 / rate + lost_s), self._low(many.hypot, rate, low, lost_s, starts_s)


def starts(workers: float, cores: float, maximum: Callable[[float, float], float] = max) -> float:
    """The time that starting all workers takes, in times of one that starts alone.

    All but the last one compute besides, as long as their start took, on the same cores.
    """
    return maximum(maximum(0.0, workers), (2 * workers - 1) / cores)


Rows = Mapping[int, tuple[Sequence[float], Sequence[float]]]
"""By cores: rates and their lower bounds, of each number of workers."""


class WholeRunPredictor:
    """Predictions of the whole run, made once: all jobs that rest on the same runs ask the same."""

    def __init__(
        self,
        steady: "ShapePredictor",
        whole: WholeRun,
        widths: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        """`widths`: factors on intervals, on cores of its own and beside others."""
        self._steady, self._whole, self._widths = steady, whole, widths
        self._told: dict[Shape, Prediction] = {}
        self._rows: dict[Shapes, Rows] = {}

    def __call__(self, shape: Shape) -> Prediction:
        """The prediction of one shape."""
        if shape not in self._told:
            if len(self._told) >= _MOST_SHAPES:
                self._told.clear()
            cores = self._steady.cores(shape.cpus_per_task)
            whole = self._whole.of(self._steady(shape), cores)
            self._told[shape] = widened(whole, *self._widths)
        return self._told[shape]

    def ran(self, shape: Shape) -> bool:
        """True if the script has run in this shape with nobody on its cores."""
        return self._steady.ran(shape)

    def rows(self, cpus: Sequence[int], workers: Sequence[int]) -> Rows:
        """Two figures of each shape, with `workers` above zero, at a fraction of the cost."""
        asked = cpus, workers
        if asked not in self._rows:
            if len(self._rows) >= _MOST_ROWS:
                self._rows.clear()
            rates, lows = self._whole.of_many(self._steady, asked)
            lows = rates * (lows / rates) ** self._widths[self._steady.crowded]
            pairs = zip(rates.tolist(), lows.tolist(), strict=True)
            self._rows[asked] = dict(zip(cpus, pairs, strict=True))
        return self._rows[asked]


@lru_cache(maxsize=_MOST_PREDICTORS)
def whole_run_predictor(
    estimated: "Estimate",
    node_cores: int | None,
    widths: tuple[float, float],
    whole: WholeRun,
    *,
    roams: bool = False,
    as_measured: bool = False,
) -> WholeRunPredictor:
    """The predictor of jobs that rest on these runs; the rest as of WholeRunPredictor.

    `roams`: Slurm does not keep the job on its cores, so that alone it has all of its node's.
    `as_measured`: as of ShapePredictor.
    """
    from slurm_ext.model.throughput.shape_predictor import ShapePredictor

    steady = ShapePredictor(
        estimated,
        node_cores=node_cores,
        processes=whole.per_task,
        roams=roams,
        as_measured=as_measured,
    )
    return WholeRunPredictor(steady, whole, widths)


def widened(one: Prediction, factor: float, beside: float) -> Prediction:
    """The prediction with intervals so many times as wide: on cores of its own, beside others.

    The last step, so that `calibrate.unwidened` is its exact inverse.
    """
    if factor == beside == 1:
        return one
    here, there = (beside, factor) if one.crowded else (factor, beside)
    bounds, other = one.interval.widened(one.samples_per_s, here), one.elsewhere
    return replace(one, interval=bounds, elsewhere=other and other.widened(there))


def whole_run_of(runs: Sequence[LoaderRun], tasks: int = 1) -> WholeRun:
    """Read it off a job's own runs, newest first; nothing where none knows its whole rate.

    `tasks`: of the job.
    """
    known = [run for run in runs if run.doubt is None and run.whole_samples_per_s and run.ranks]
    ranks = next((run.ranks for run in runs if run.ranks), 1)
    whole = WholeRun(ranks, per_task=-(-ranks // tasks))
    if not known:
        return whole
    from slurm_ext.core.stats import median

    started = [run for run in known if _started(run)]
    return replace(
        whole,
        beside_s=median(map(_beside_s, known)),
        start_s=median(map(_start_s, started or known)),
        start_factor=START_FACTOR if started else UNSEEN_START_FACTOR,
        trial_s=median(map(_trial_s, known)),
        user_workers=known[0].user_workers or 0,
    )


def _beside_s(run: LoaderRun) -> float:
    whole_s = (run.ranks or 1) / (run.whole_samples_per_s or run.samples_per_s)
    starts_s = _start_s(run) * starts(run.workers, run.cores)
    trial = WholeRun(trial_s=_trial_s(run), user_workers=run.user_workers or 0)
    lost_s = starts_s + trial.trial(run.workers)
    return max(0.0, whole_s - 1 / run.samples_per_s - lost_s)


def _trial_s(run: LoaderRun) -> float:
    """For each sample of the run; `run_samples` are of all ranks."""
    if run.user_workers is None or not run.run_samples:
        return 0.0
    batches = {0: TRIAL_BATCHES, 1: OF_ONE}.get(run.user_workers, OF_SEVERAL)
    return batches * run.batch_size * run.fetch_wall_s * (run.ranks or 1) / run.run_samples


def _start_s(run: LoaderRun) -> float:
    """Of one worker, for each sample of a pass."""
    if not run.epoch_samples:
        return 0.0
    alone_s = START_S
    if run.startup_s is not None and _started(run):
        alone_s = run.startup_s / starts(run.workers, run.cores)
    return alone_s / run.epoch_samples


def _started(run: LoaderRun) -> bool:
    return run.workers > 0 and run.startup_s is not None
