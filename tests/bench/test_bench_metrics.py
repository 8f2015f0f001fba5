"""Scores that the benchmarks share."""

import numpy as np
import pytest

from contrib.bench.common import metrics

MEASURED = np.array([1.0, 2.0, 4.0, 8.0])


def test_scores_of_known_errors() -> None:
    """Each score has its unit and its sign."""
    predicted = MEASURED * np.array([1.1, 0.9, 1.3, 1.0])
    assert metrics.mae(predicted, MEASURED) == pytest.approx((0.1 + 0.2 + 1.2) / 4)
    assert metrics.medape(predicted, MEASURED) == pytest.approx(10.0)
    assert metrics.mape(predicted, MEASURED) == pytest.approx(12.5)
    squares = 0.1**2 + 0.2**2 + 1.2**2
    assert metrics.r2(predicted, MEASURED) == pytest.approx(1 - squares / (MEASURED.var() * 4))
    assert metrics.spearman(-predicted, MEASURED) == pytest.approx(-1.0)


def test_auc_counts_ties_half() -> None:
    """Equal predictions of a positive and a negative row are neither right nor wrong."""
    positive = np.array([False, True, False, True])
    assert metrics.auc(MEASURED, positive) == pytest.approx(0.75)
    assert metrics.auc(np.ones(4), positive) == pytest.approx(0.5)


def test_an_interval_holds_its_ends() -> None:
    """A measurement on a bound is inside."""
    assert metrics.coverage(MEASURED, MEASURED, MEASURED) == 1.0
    assert metrics.coverage(MEASURED + 0.1, MEASURED + 1, MEASURED) == 0.0


def test_what_is_not_defined_is_none() -> None:
    """No row, one class, or no variance."""
    nothing, ones = MEASURED[:0], np.ones(4)
    assert set(metrics.errors(nothing, nothing).values()) == {None}
    assert metrics.r2(MEASURED, ones) is None
    assert metrics.spearman(ones, MEASURED) is None
    assert metrics.auc(MEASURED, ones > 0) is None
    assert metrics.share(ones > 0, ones < 0) is None
