"""Calibrates the width of intervals by past outcomes: split conformal prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log

from slurm_ext.core.stats import conformal_rank

LEVEL = 0.9
FEWEST = 20  # outcomes; below them the quantile is an extreme and not a measurement
NARROWEST, WIDEST = 0.5, 5.0


@dataclass(frozen=True, slots=True)
class CalibrationPoint:
    """Prediction for one run without any factor, and its measured rate; samples/s."""

    predicted: float
    low: float
    high: float
    measured: float


def interval_factor(outcomes: Sequence[CalibrationPoint]) -> float:
    """Factor that would have covered nine in ten of `outcomes`; 1 if they are too few.

    The miss of conformal rank among |log(measured / predicted)| over the half width.
    """
    return factor_of_misses(sorted(in_half_widths(outcome) for outcome in outcomes))


def factor_of_misses(misses: Sequence[float]) -> float:
    """`interval_factor` of misses in half widths, the smallest first."""
    if len(misses) < FEWEST:
        return 1.0
    return min(WIDEST, max(NARROWEST, misses[conformal_rank(len(misses), LEVEL) - 1]))


def in_half_widths(outcome: CalibrationPoint) -> float:
    """Distance of the measured rate from the predicted one; 1 is at the interval's end."""
    if min(outcome.predicted, outcome.low, outcome.high, outcome.measured) <= 0:
        return inf
    above = outcome.measured > outcome.predicted
    half = log(outcome.high / outcome.predicted) if above else log(outcome.predicted / outcome.low)
    return abs(log(outcome.measured / outcome.predicted)) / max(half, 1e-9)
