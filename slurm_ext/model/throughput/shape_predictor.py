"""Predicts a training's throughput at any shape from its estimated curve.

Pure; numpy is imported where many shapes are asked at once, or cores were crowded.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, exp, inf, log
from typing import TYPE_CHECKING, Any

from slurm_ext.core.records import Elsewhere, Interval, Prediction, Shape
from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.floats import FLOATS
from slurm_ext.model.throughput.curve.costs import Curve
from slurm_ext.model.throughput.curve.point import Point
from slurm_ext.model.throughput.curve.points import at
from slurm_ext.model.throughput.estimate import Estimate, curve_of
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.model.throughput.measured import was_measured, with_measured
from slurm_ext.model.throughput.spread import crowded_spread, log_sd

if TYPE_CHECKING:  # most jobs' runs were not crowded, and need no numpy
    from slurm_ext.model.throughput.crowded_shares import CrowdedShares


def predict(
    estimate: Estimate, shape: Shape, *, node_cores: int | None = None, factor: float = 1.0
) -> Prediction:
    """Throughput of `shape` with its 90 % interval.

    `node_cores`: cores the machine really has; `factor`: of the interval's width, from
    `calibration.interval_factor`.
    """
    return ShapePredictor(estimate, node_cores=node_cores, factor=factor)(shape)


class ShapePredictor:
    """Predictions of one estimate: of a shape in full, of many at once as two figures each.

    Where the last runs' cores were crowded, the next one's will be: the rate is that beside as many
    processes. What cores of its own would give stands beside it where other jobs have to be among
    those; else the interval reaches up to that.
    """

    def __init__(
        self,
        estimate: Estimate,
        *,
        node_cores: int | None = None,
        factor: float = 1.0,
        processes: int = 1,
        roams: bool = False,
        as_measured: bool = False,
    ) -> None:
        """As of `predict`; `processes` of a task share its cores: the node's where it `roams`.

        `as_measured`: single shapes in which the script has run are told as it ran.
        """
        self._known, self._curve, self._factor = estimate, curve_of(estimate), factor
        self._node_cores, self._processes = node_cores or inf, processes
        self._roams, self._as_measured = roams, as_measured
        self._left = _shares_beside(estimate, self._curve) if estimate.others else None

    def __call__(self, shape: Shape) -> Prediction:
        """The prediction of one shape."""
        estimate, cores = self._known, self.cores(shape.cpus_per_task)
        alone = _predict(estimate, self._curve, cores, self._factor, shape)
        if self._as_measured:
            alone = _as_measured(alone, estimate, cores)
        if self._left is None:
            return alone
        return _beside(alone, self._left(shape.num_workers, cores), self._factor, estimate)

    @property
    def crowded(self) -> bool:
        """True if its rates are those beside other jobs."""
        return self._left is not None and self._known.by_other_jobs

    def ran(self, shape: Shape) -> bool:
        """True if the script has run in this shape with nobody on its cores."""
        return was_measured(
            self._known.measured, shape.num_workers, self.cores(shape.cpus_per_task)
        )

    def cores(self, cpus: int) -> float:
        """Cores of one process."""
        roams = self._roams and self._node_cores < inf
        return (self._node_cores if roams else min(cpus, self._node_cores)) / self._processes

    def ends(self, cpus: Sequence[int], workers: Sequence[int]) -> tuple[Any, Any]:
        """Rates and lower bounds: arrays, a row for each of `cpus`, of `workers` above zero."""
        import numpy as np  # the allocator of a node asks for single shapes alone

        many: Any = np
        own = [self.cores(count) for count in cpus]
        row: Any = np.array(workers)
        column: Any = np.array(own)[:, None]
        if self._left is None:
            point = at(replace(self._curve, arithmetic=many), row, column)
        else:
            point, share = self._left.of_many(workers, own)
        rate, sd = point.samples_per_s, log_sd(self._known, many, point, row, column)
        spread = NORMAL_90 * self._factor * sd
        if self._left is not None:
            rate, spread = rate * share, crowded_spread(many, spread, share, self._factor)
        return rate, rate * np.exp(-spread)


def _as_measured(alone: Prediction, known: Estimate, cores: float) -> Prediction:
    """The prediction corrected by runs in its shape."""
    bounds = alone.interval
    sd = log(bounds.high / bounds.low) / (2 * NORMAL_90)
    curve = LogNormal(log(alone.samples_per_s), sd)
    both = with_measured(known.measured, alone.shape.num_workers, cores, curve)
    if both == curve:
        return alone
    rate, spread = exp(both.log_mean), NORMAL_90 * both.log_sd
    told = Interval(rate * exp(-spread), rate * exp(spread), bounds.level)
    return replace(alone, samples_per_s=rate, interval=told)


def _shares_beside(estimate: Estimate, curve: Curve) -> "CrowdedShares":
    from slurm_ext.model.throughput.crowded_shares import CrowdedShares

    return CrowdedShares(curve, estimate.others, estimate.crowded or estimate.seen)


def _beside(quiet: Prediction, share: float, factor: float, known: Estimate) -> Prediction:
    """The prediction with so much of its rate left on crowded cores."""
    rate, bounds, theirs = quiet.samples_per_s * share, quiet.interval, known.by_other_jobs
    spread = crowded_spread(FLOATS, log(quiet.samples_per_s / bounds.low), share, factor)
    limited = quiet.bottleneck in ("accelerator", "step")
    return Prediction(
        shape=quiet.shape,
        samples_per_s=rate,
        interval=Interval(rate * exp(-spread), rate * exp(spread) if theirs else bounds.high),
        bottleneck="cores" if limited else quiet.bottleneck,
        level=quiet.level,
        runs=quiet.runs,
        elsewhere=elsewhere(quiet, crowded=False) if theirs else None,
    )


def elsewhere(prediction: Prediction, *, crowded: bool) -> Elsewhere:
    """A prediction's rate, as the one of another world."""
    return Elsewhere(prediction.samples_per_s, prediction.interval, crowded)


def core_predictor(
    estimate: Estimate, *, factor: float = 1.0
) -> Callable[[float, int], Prediction]:
    """Return `predict` for any cores of its own, fractions included, and workers."""
    curve = curve_of(estimate)

    def at_cores(cores: float, workers: int) -> Prediction:
        shape = Shape(cpus_per_task=max(1, ceil(cores)), num_workers=workers)
        return _predict(estimate, curve, cores, factor, shape)

    return at_cores


def point_at(estimate: Estimate, workers: int, cores: float) -> Point:
    """Return the point of the estimated curve."""
    return at(curve_of(estimate), workers, cores)


def _predict(
    estimate: Estimate, curve: Curve, cores: float, factor: float, shape: Shape
) -> Prediction:
    point = at(curve, shape.num_workers, cores)
    spread = NORMAL_90 * factor * log_sd(estimate, FLOATS, point, shape.num_workers, cores)
    rate = point.samples_per_s
    return Prediction(
        shape=shape,
        samples_per_s=rate,
        interval=Interval(rate * exp(-spread), rate * exp(spread)),
        bottleneck=point.limit,
        level=estimate.level,
        runs=estimate.runs,
    )
