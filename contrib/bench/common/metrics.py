"""Scores of predictions against measurements, by scikit-learn and SciPy.

A score is None where it is not defined: no row, one class, or all values equal.
"""

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score

from contrib.bench.common.arrays import Array, Marks


def mae(predicted: Array, measured: Array) -> float | None:
    """Mean absolute error, in the unit of the rows."""
    return float(mean_absolute_error(measured, predicted)) if len(measured) else None


def medape(predicted: Array, measured: Array) -> float | None:
    """Median absolute error in per cent of the measured value."""
    return 100 * float(np.median(_relative(predicted, measured))) if len(measured) else None


def mape(predicted: Array, measured: Array) -> float | None:
    """Mean absolute error in per cent of the measured value."""
    return 100 * float(_relative(predicted, measured).mean()) if len(measured) else None


def r2(predicted: Array, measured: Array) -> float | None:
    """Share of the variance that the predictions explain."""
    return float(r2_score(measured, predicted)) if _varies(measured) else None


def log_r2(predicted: Array, measured: Array) -> float | None:
    """R2 of natural logarithms."""
    return r2(np.log(predicted), np.log(measured))


def spearman(predicted: Array, measured: Array) -> float | None:
    """Correlation of ranks."""
    if not (_varies(predicted) and _varies(measured)):
        return None
    return float(spearmanr(predicted, measured).statistic)


def auc(predicted: Array, positive: Marks) -> float | None:
    """Probability that a positive row is predicted higher than a negative one; ties count half."""
    return float(roc_auc_score(positive, predicted)) if _varies(positive) else None


def coverage(low: Array, high: Array, measured: Array) -> float | None:
    """Share of the rows inside their interval."""
    return share((low <= measured) & (measured <= high))


def share(marks: Marks, among: Marks | None = None) -> float | None:
    """Share of marked rows, among all or among some."""
    rows = marks if among is None else marks[among]
    return float(rows.mean()) if len(rows) else None


def errors(predicted: Array, measured: Array) -> dict[str, float | None]:
    """Scores that every protocol reports of every method."""
    return {
        "mae": mae(predicted, measured),
        "medape": medape(predicted, measured),
        "r2": r2(predicted, measured),
        "spearman": spearman(predicted, measured),
    }


def _relative(predicted: Array, measured: Array) -> Array:
    return np.asarray(np.abs(predicted - measured) / np.maximum(measured, 1e-9))


def _varies(values: Array | Marks) -> bool:
    return len(values) > 0 and bool((values != values[0]).any())
