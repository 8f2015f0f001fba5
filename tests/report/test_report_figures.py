"""Statistics from sums and bins: against known values and simple properties."""

from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.report.figures import Group, coarser, quantile, share, student, welch_ratio

WEIGHTS = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=30)


def group(*logs: float) -> Group:
    """Sums of some logarithms."""
    return Group(len(logs), sum(logs), sum(x * x for x in logs))


def test_a_gain_has_welchs_interval() -> None:
    """The textbook: means 1 apart, known variances; t of 17.8 degrees of freedom is 2.10."""
    treated = group(*(1.0 + 0.1 * k for k in range(10)))
    control = group(*(0.1 * k for k in range(10)))
    found = welch_ratio(treated, control)
    assert found is not None
    assert found.value == pytest.approx(exp(1.0))
    reach = 2.1009 * (2 * 0.0916667 / 10) ** 0.5
    assert log(found.high) == pytest.approx(1 + reach, rel=1e-3)
    assert log(found.low) == pytest.approx(1 - reach, rel=1e-3)


@pytest.mark.parametrize(("freedom", "t"), [(4, 2.776), (10, 2.228), (30, 2.042), (1e9, 1.960)])
def test_students_t_is_that_of_the_tables(freedom: float, t: float) -> None:
    """Within one per cent."""
    assert student(freedom) == pytest.approx(t, rel=0.01)


def test_too_few_jobs_claim_nothing() -> None:
    """Seven of a control group are no measurement."""
    assert welch_ratio(group(*range(100)), group(*range(7))) is None


def test_a_share_has_wilsons_interval() -> None:
    """None of ten may still be a quarter of all (Brown, Cai and DasGupta 2001)."""
    found = share(0, 10)
    assert found is not None
    assert (found.value, found.low) == pytest.approx((0.0, 0.0))
    assert found.high == pytest.approx(0.2775, abs=1e-3)
    assert share(0, 0) is None


def test_quantiles_lie_evenly_within_their_bin() -> None:
    """Ten in [0, 1) and ten in [3, 4)."""
    bins = [(0, 10.0), (3, 10.0)]
    assert quantile(bins, 0.25, 1.0) == 0.5
    assert quantile(bins, 0.75, 1.0) == 3.5
    assert quantile([], 0.5, 1.0) is None


@given(WEIGHTS, st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_quantiles_rise_and_stay_inside(weights: list[float], one: float, other: float) -> None:
    """A larger share is never a smaller value, and no value is outside of all bins."""
    bins = list(enumerate(weights))
    low, high = (quantile(bins, at, 1.0) for at in sorted((one, other)))
    if low is None or high is None:
        assert sum(weights) == 0
        return
    assert 0 <= low <= high + 1e-9
    assert high <= len(weights) + 1e-9


@given(WEIGHTS, st.integers(1, 7))
def test_coarser_bins_lose_nothing(weights: list[float], by: int) -> None:
    """The total stays."""
    found = coarser(list(enumerate(weights)), by)
    assert sum(weight for _, weight in found) == pytest.approx(sum(weights))
