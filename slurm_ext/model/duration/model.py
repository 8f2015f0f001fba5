"""Predicts the run time of a submitted job: history's mean, corrected by trees, with bounds.

    mean log duration = half (backed-off mean of the history + trees(features, seen from that mean))
                      + half trees(features as they are)

The mean is `state.backed_off`; the first trees see other levels as distances from it, so that a
user whose jobs are all ten times longer is predicted as well as before. The median and the bounds
are trees of the 50 %, 5 % and 95 % quantile, seen from that mean too; `AdaptiveBounds` moves the
bounds so that each holds as often as it says. People are told the median, which half of such jobs
do not reach; the mean of logs lies above it, because many jobs fail at once.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurm_ext.model.arrays import Array
from slurm_ext.model.boosted_trees import Forest
from slurm_ext.model.duration.key_statistics import STATISTICS
from slurm_ext.model.duration.state import FeaturePlan

LOGS = frozenset(
    [
        "last",
        "before_last",
        "third_last",
        "fast",
        "middling",
        "slow",
        "median",
        "log_mean",
        "recent",
    ]
)
LEAST_LOG, MOST_LOG = 0.0, 18.0  # 1 s to two years
KNOWN_FROM = (1, 5)  # ended runs of the narrowest key: none, some, many (CQR by Mondrian bins)
MISSED = 0.05  # on each side: 90 % inside


@dataclass(frozen=True, slots=True)
class DurationQuantiles:
    """Natural logs of seconds, one a row; `known` is the bin of `KNOWN_FROM`."""

    log_mean: Array
    log_median: Array
    log_low: Array
    log_high: Array
    known: NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class DurationModel:
    """A fitted model; `start` is the mean log duration of all jobs that it learned from."""

    plan: FeaturePlan
    start: float
    mean: Forest
    plain: Forest
    median: Forest
    low: Forest
    high: Forest

    def predict(self, rows: Array) -> DurationQuantiles:
        """Predict rows of `DurationState.row`; the bounds are not moved yet."""
        base, shifted = relative(self.plan, rows, self.start)
        mean = self._middle(rows, base, shifted)
        low = np.minimum(base + self.low(shifted), mean)
        high = np.maximum(base + self.high(shifted), mean)
        median = np.clip(base + self.median(shifted), low, high)
        ended = np.expm1(np.nan_to_num(rows[:, STATISTICS.index("ended")])).round()
        levels = np.searchsorted(KNOWN_FROM, ended, side="right")
        return DurationQuantiles(mean, median, low, high, levels)

    def middle(self, rows: Array) -> Array:
        """`log_mean` alone, at half the cost."""
        return self._middle(rows, *relative(self.plan, rows, self.start))

    def _middle(self, rows: Array, base: Array, shifted: Array) -> Array:
        middle = (base + self.mean(shifted) + self.start + self.plain(rows)) / 2
        return np.clip(middle, LEAST_LOG, MOST_LOG)


def relative(plan: FeaturePlan, rows: Array, start: float) -> tuple[Array, Array]:
    """Return history's mean, and the rows with log durations relative to it."""
    base = rows[:, plan.features.index("history")]
    base = np.where(np.isnan(base), start, base)
    logs = [at for at, name in enumerate(plan.features) if name.split(":")[-1] in LOGS]
    shifted = rows.copy()
    shifted[:, logs] -= base[:, None]
    return base, shifted
