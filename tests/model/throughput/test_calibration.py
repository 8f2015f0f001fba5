"""The factor on intervals at its limits: few outcomes, the conformal rank, clipping."""

from math import exp

import pytest

from slurm_ext.model.throughput.calibration import (
    FEWEST,
    NARROWEST,
    WIDEST,
    CalibrationPoint,
    interval_factor,
)


def missed(half_widths: float) -> CalibrationPoint:
    """An outcome so many half widths from its prediction; below it where negative."""
    return CalibrationPoint(
        10.0,
        10.0 * exp(-0.3),
        10.0 * exp(0.2),
        10.0 * exp(half_widths * (0.2 if half_widths > 0 else 0.3)),
    )


def test_few_outcomes_change_nothing() -> None:
    """19 are too few, 20 are not."""
    assert FEWEST == 20
    assert interval_factor([missed(3.0)] * 19) == 1.0
    assert interval_factor([missed(3.0)] * 20) == pytest.approx(3.0)


@pytest.mark.parametrize(("count", "rank"), [(20, 19), (29, 27), (30, 28), (99, 90), (100, 91)])
def test_the_miss_of_conformal_rank_is_the_factor(count: int, rank: int) -> None:
    """ceil((n + 1) * 0.9), of misses on either side in that side's own half width."""
    sizes = [1 + at / 100 for at in range(1, count + 1)]
    outcomes = [missed(size if at % 2 else -size) for at, size in enumerate(sizes)]
    assert interval_factor(outcomes[::-1]) == pytest.approx(1 + rank / 100)


def test_units_do_not_matter() -> None:
    """Rates below one sample a second have the same misses."""
    slow = [CalibrationPoint(0.1, 0.08, 0.12, 0.14)] * FEWEST
    fast = [CalibrationPoint(100.0, 80.0, 120.0, 140.0)] * FEWEST
    assert interval_factor(slow) == pytest.approx(interval_factor(fast))


def test_the_factor_has_two_ends() -> None:
    """Half as wide at the least, five times at the most, also where nothing is a number."""
    assert interval_factor([missed(0.1)] * 20) == NARROWEST
    assert interval_factor([missed(9.0)] * 20) == WIDEST
    broken = [CalibrationPoint(10.0, 8.0, 12.0, 0.0)] * 20
    assert interval_factor(broken) == WIDEST
    assert interval_factor([CalibrationPoint(10.0, 10.0, 10.0, 10.0)] * 20) == NARROWEST
    assert interval_factor([CalibrationPoint(10.0, 0.0, 12.0, 11.0)] * 20) == WIDEST
