"""Fits the growth of a rate with a count of GPUs, threads or cores, from very few measured counts.

The curve of speedup_terms.py is drawn many times from a prior, and each draw weighs as much as it
explains of the measurements. Noise is not the same for every job: a job's own noise
is the prior's times an unknown factor, so that a noisy job weighs less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite

import numpy as np

from slurm_ext.core.errors import InputError
from slurm_ext.core.records import Interval
from slurm_ext.model.arrays import Array
from slurm_ext.model.scaling.model import Shares
from slurm_ext.model.scaling.sampling import SEED, Draws, draw
from slurm_ext.model.scaling.speedup_terms import SpeedupPrior, log_rates, waiting

STEADY = 3.0  # measurements' worth of trust that a job is as noisy as the prior says
MOST_UNITS = 1 << 20
TAIL = 0.05  # on each side of the 90 % interval
STEPS_A_DOUBLING = 2  # at which widths are looked at, beyond the largest count measured

__all__ = ["CountMeasurement", "CurveLikelihood", "SpeedupCurve", "curve_likelihood", "fit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountMeasurement:
    """Rate measured at a count of units, in any unit of rate.

    `log_sd`: the standard error of log rate from its own repetitions; 0: not known.
    """

    count: float
    rate: float
    log_sd: float = 0.0


@dataclass(frozen=True, slots=True)
class CurveLikelihood:
    """Measurements against each draw of the curve, with the rate of one unit worked out.

    One row a draw: `log_one` is the log rate of one unit, `squares` the normalised squared misses
    (one column a measurement) that are left then.
    """

    log_one: Array
    log_one_sd: float
    squares: Array
    freedom: float  # degrees of freedom of the job's noise

    def log_likelihood(self) -> Array:
        """Up to a constant; the job's own noise factor is averaged over."""
        return np.asarray(-self.freedom / 2 * np.log1p(self.squares.sum(1) / STEADY))

    def noise_factor(self) -> Array:
        """Ratio of the job's noise to the prior's (1: equal), under each draw."""
        return np.asarray(np.sqrt((STEADY + self.squares.sum(1)) / self.freedom))


def curve_likelihood(
    points: Sequence[CountMeasurement], prior: SpeedupPrior, terms: Array
) -> CurveLikelihood:
    """`points` against each row of `terms`."""
    counts = np.array([point.count for point in points], dtype=np.float64)
    sds = np.array([point.log_sd for point in points])
    trust = 1 / (prior.noise_log_sd**2 + sds**2)
    over_one = np.log([point.rate for point in points]) - log_rates(
        terms, counts, splits=prior.splits
    )
    log_one = over_one @ trust / trust.sum()
    squares = (over_one - log_one[:, None]) ** 2 * trust
    return CurveLikelihood(log_one, float(trust.sum() ** -0.5), squares, STEADY + len(points) - 1)


@dataclass(frozen=True, slots=True)
class SpeedupCurve:
    """A fitted curve: predicts the rate at any count."""

    prior: SpeedupPrior
    draws: Draws
    log_one: Array
    noise_draws: Array  # one draw of log noise for each draw of the curve
    largest: float  # count measured

    def rate(self, count: float) -> tuple[float, Interval]:
        """The rate at `count` units, in the unit of the measurements, and its 90 % interval.

        Beyond the largest count measured, the interval relative to the rate never narrows.
        """
        log_rate = self._middle(_counts(count))
        below, above = self._reach(_counts(count))
        widen = self.prior.widen
        low, high = exp(log_rate - widen * below), exp(log_rate + widen * above)
        return exp(log_rate), Interval(low, high)

    def shares(self, count: float) -> Shares:
        """Shares of a step at `count` units for work, and for waiting for each other."""
        wait = waiting(self.draws.rows, _counts(count), splits=self.prior.splits)
        network = float(self.draws.weights @ wait[:, 0])
        return Shares(compute=1 - network, network=network)

    def _log_rates(self, counts: Array) -> Array:
        rows = log_rates(self.draws.rows, counts, splits=self.prior.splits)
        return rows[:, 0] + self.log_one

    def _middle(self, counts: Array) -> float:
        return self.draws.quantile(self._log_rates(counts), 0.5)

    def _reach(self, counts: Array) -> tuple[float, float]:
        """Reach of the interval below and above, in logs."""
        doublings = float(np.log2(counts[0] / self.largest))
        if doublings <= 0:
            return self._reach_here(counts)
        steps = np.arange(np.ceil(doublings * STEPS_A_DOUBLING) + 1)
        grid = self.largest * 2.0 ** (steps / STEPS_A_DOUBLING)
        reaches = np.array([self._reach_here(np.array([at])) for at in grid])
        widest = np.maximum.accumulate(reaches, axis=0)
        at = doublings * STEPS_A_DOUBLING
        return float(np.interp(at, steps, widest[:, 0])), float(np.interp(at, steps, widest[:, 1]))

    def _reach_here(self, counts: Array) -> tuple[float, float]:
        rows = self._log_rates(counts)
        middle = self.draws.quantile(rows, 0.5)
        low, high = (self.draws.quantile(rows + self.noise_draws, at) for at in (TAIL, 1 - TAIL))
        return max(0.0, middle - low), max(0.0, high - middle)


def fit(points: Sequence[CountMeasurement], prior: SpeedupPrior) -> SpeedupCurve:
    """Fit the curve to `points`, at least one. Raises InputError."""
    _check(points)
    draws = draw(
        lambda rows: curve_likelihood(points, prior, rows).log_likelihood(),
        np.array(prior.means),
        np.array(prior.covariance),
    )
    likelihood = curve_likelihood(points, prior, draws.rows)
    noise = np.random.default_rng(SEED).standard_t(likelihood.freedom, len(draws.rows))
    noise_draws = (
        noise * likelihood.noise_factor() * np.hypot(prior.noise_log_sd, likelihood.log_one_sd)
    )
    return SpeedupCurve(
        prior, draws, likelihood.log_one, noise_draws, max(point.count for point in points)
    )


def _check(points: Sequence[CountMeasurement]) -> None:
    if not points:
        raise InputError("measurements", "none: at least one count has to be measured")
    for point in points:
        _counts(point.count)
        if not (isfinite(point.rate) and point.rate > 0):
            raise InputError(
                "measurements",
                f"rate = {point.rate!r} at {point.count:g}: expected a positive number",
            )
        if not (isfinite(point.log_sd) and point.log_sd >= 0):
            raise InputError(
                "measurements", f"log_sd = {point.log_sd!r} at {point.count:g}: expected 0 or more"
            )


def _counts(count: float) -> Array:
    if not 1 <= count <= MOST_UNITS:
        raise InputError("count", f"{count!r}: expected 1 to {MOST_UNITS} units")
    return np.array([count], dtype=np.float64)
