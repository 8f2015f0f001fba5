"""Figures of predicted against measured rates, pooled over rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from contrib.bench.common import metrics
from contrib.bench.common.arrays import Array


@dataclass(frozen=True, eq=False, slots=True)
class RatePredictions:
    """Predictions of one reveal's other configs; rates in samples/s, "ours" among the methods."""

    protocol: str
    pair: tuple[str, str]
    unseen: str
    measured: Array
    low: Array
    high: Array
    rates: Mapping[str, Array]


def scores(predictions: Sequence[RatePredictions]) -> dict[str, Any]:
    """Figures of ours and of every baseline; errors in per cent, `mae` in samples/s."""
    measured = np.concatenate([one.measured for one in predictions])
    methods = {
        name: errors(np.concatenate([one.rates[name] for one in predictions]), measured)
        for name in predictions[0].rates
    }
    low, high = (
        np.concatenate([getattr(one, end) for one in predictions]) for end in ("low", "high")
    )
    interval = {
        "coverage90": metrics.coverage(low, high, measured),
        "median_high_over_low": float(np.median(high / low)),
    }
    return {
        "n": len(measured),
        "trainings": len({one.pair for one in predictions}),
        "ours": {**methods.pop("ours"), **interval},
        "baselines": methods,
    }


def errors(predicted: Array, measured: Array) -> dict[str, float | None]:
    """Scores of predicted rates."""
    return {
        **metrics.errors(predicted, measured),
        "mape": metrics.mape(predicted, measured),
        "log_r2": metrics.log_r2(predicted, measured),
    }


def least_error(log_sds: Array) -> float | None:
    """Median error in per cent of what is never wrong, by the measurements' own noise.

    Null where no noise is known.
    """
    from scipy.stats import norm

    if not log_sds.any():
        return None
    low, high = 0.0, 10.0 * float(log_sds.max())
    for _ in range(50):
        middle = (low + high) / 2
        inside = 2 * norm.cdf(middle / np.maximum(log_sds, 1e-12)) - 1
        low, high = (middle, high) if inside.mean() < 0.5 else (low, middle)
    return 100 * middle


def by_chance(rows: int) -> list[float]:
    """Shares inside that right 90 % intervals have nine times in ten, were the rows independent."""
    from scipy.stats import binom

    return [float(binom.ppf(level, rows, 0.9)) / rows for level in (0.05, 0.95)]
