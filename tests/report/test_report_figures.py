"""Quantiles of bins: against known values and simple properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.report.formatting import shown
from slurm_ext.report.sections.gain import coarser, quantile
from slurm_ext.report.sections.predictions import FEWEST, lead

WEIGHTS = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=30)


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


def test_an_absent_reason_is_a_dash() -> None:
    """Only a person or a job can have no name."""
    assert (shown("", "words"), shown(None, "words"), shown("", "name")) == ("-", "-", "(no name)")


@pytest.mark.parametrize(("runs", "verdict"), [(1, "too few"), (FEWEST, "too narrow")])
def test_a_miss_is_no_verdict_on_the_intervals(runs: int, verdict: str) -> None:
    """Wilson's bounds of one outcome would already exclude what is promised."""
    assert verdict in lead(0.0, 0.79, [(0, runs)])[0]
