"""Intervals of ratios and shares, and conformal ranks: against SciPy and known values."""

import statistics
from math import exp, log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from slurm_ext.core.stats import (
    FEWEST,
    NORMAL_90,
    LogGroup,
    conformal_rank,
    fair_limit,
    fair_newest,
    fair_rows,
    fair_weights,
    median,
    median_low,
    normal_reach,
    share,
    student,
    welch_ratio,
)


def group(*logs: float) -> LogGroup:
    """Sums of some logarithms."""
    return LogGroup(len(logs), sum(logs), sum(x * x for x in logs))


def test_a_group_knows_its_moments() -> None:
    """Mean and unbiased variance, and 0 where there is nothing to tell them by."""
    assert (group(1, 2, 4).mean, group(1, 2, 4).variance) == pytest.approx((7 / 3, 7 / 3))
    assert (group().mean, group().variance) == (0.0, 0.0)
    assert (group(3).mean, group(3).variance) == (3.0, 0.0)
    assert group(3, 5).variance == pytest.approx(2.0)
    assert LogGroup(3, 3e8, 3e16 - 1).variance == 0.0  # rounding is never a negative spread


def test_a_gain_has_welchs_interval() -> None:
    """Groups of unlike sizes and spreads, as SciPy has them; treated over control."""
    random = Random(3)
    treated = [random.gauss(0.3, 0.5) for _ in range(40)]
    control = [random.gauss(0.0, 0.2) for _ in range(12)]
    found = welch_ratio(group(*treated), group(*control))
    told = stats.ttest_ind(treated, control, equal_var=False).confidence_interval(0.95)
    assert found is not None
    assert (log(found.low), log(found.high)) == pytest.approx((told.low, told.high), rel=1e-3)
    assert log(found.value) == pytest.approx(sum(treated) / 40 - sum(control) / 12)


def test_groups_without_spread_differ_for_sure() -> None:
    """All alike on both sides: the interval is the ratio itself."""
    found = welch_ratio(group(*[1.0] * 8), group(*[0.5] * 8))
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((exp(0.5),) * 3)


@pytest.mark.parametrize(
    ("treated", "control", "claims"),
    [(FEWEST, FEWEST, True), (FEWEST - 1, 100, False), (100, FEWEST - 1, False)],
)
def test_too_few_jobs_claim_nothing(treated: int, control: int, claims: bool) -> None:
    """Seven of either group are no measurement; eight of both are."""
    found = welch_ratio(group(*range(treated)), group(*range(control)))
    assert (found is not None) is claims


@pytest.mark.parametrize("freedom", [4, 6, 10, 30, 1e9])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_students_t_is_that_of_the_tables(freedom: float, level: float) -> None:
    """Within one per cent from 4 degrees of freedom on."""
    assert student(freedom, level) == pytest.approx(stats.t.ppf((1 + level) / 2, freedom), rel=0.01)


def test_students_t_stays_finite_below_its_range() -> None:
    """Below 3 degrees of freedom the expansion would grow without bounds."""
    assert student(0.0) == student(3.0) > student(3.1)


@pytest.mark.parametrize(("hits", "of"), [(0, 10), (1, 10), (5, 10), (10, 10), (1, 1), (90, 100)])
def test_a_share_has_wilsons_interval(hits: int, of: int) -> None:
    """None of ten may still be a quarter of all (Brown, Cai and DasGupta 2001)."""
    found = share(hits, of)
    told = stats.binomtest(hits, of).proportion_ci(0.95, method="wilson")
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx(
        (hits / of, told.low, told.high), abs=1e-9
    )


@pytest.mark.parametrize("of", [0, -1])
def test_a_share_of_nothing_is_none(of: int) -> None:
    """Nothing is claimed where nothing was counted."""
    assert share(0, of) is None


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9))
def test_middles_are_those_of_the_standard_library(values: list[float]) -> None:
    """To the last bit, for a median stands in records and in models."""
    assert median(iter(values)) == statistics.median(values)
    assert median_low(iter(values)) == statistics.median_low(values)


def test_reaches_of_the_normal() -> None:
    """The constant is the function's value at 90 %, as far as it was written down."""
    assert normal_reach(0.9) == pytest.approx(NORMAL_90, abs=5e-4)
    assert normal_reach(0.95) == pytest.approx(1.959964, abs=1e-6)


@pytest.mark.parametrize(
    ("count", "level", "rank"),
    [
        (1, 0.9, 1),
        (8, 0.9, 8),
        (9, 0.9, 9),
        (10, 0.9, 10),
        (18, 0.9, 18),
        (19, 0.9, 18),
        (20, 0.9, 19),
        (99, 0.9, 90),
        (100, 0.9, 91),
        (99, 0.5, 50),
    ],
)
def test_the_conformal_rank_counts_the_miss_to_come(count: int, level: float, rank: int) -> None:
    """ceil((n + 1) level), never beyond the last: the bound covers the next miss, not these."""
    assert conformal_rank(count, level) == rank


@given(st.integers(1, 10_000))
def test_the_conformal_rank_covers(count: int) -> None:
    """Where there are enough misses, at least nine in ten lie within."""
    assert conformal_rank(count) <= count
    if count >= 10:
        assert conformal_rank(count) >= 0.9 * count


@given(st.lists(st.integers(1, 2000), max_size=30), st.integers(1, 4))
def test_nobody_has_more_than_a_fair_share(counts: list[int], users: int) -> None:
    """Of as many rows as can be kept; one row more of each would be too many for somebody."""
    limit = fair_limit(counts, users)
    kept = [min(count, limit) for count in counts]
    assert max(kept, default=0) * users <= sum(kept)
    if limit < max(counts, default=0):
        more = [min(count, limit + 1) for count in counts]
        assert max(more) * users > sum(more)


def test_fewer_users_than_a_pool_has_count_alike() -> None:
    """One has all, two have half each; three and more have a third at most."""
    assert fair_weights(["a"] * 4) == [1.0] * 4
    assert fair_weights(["a"] * 8 + ["b"] * 2) == [0.25] * 8 + [1.0] * 2
    assert fair_weights(["a"] * 8 + ["b", "c"]) == [0.125] * 8 + [1.0] * 2
    assert fair_newest(list("aaaab")) == [3, 4]
    assert fair_newest(list("aaaab"), least=3) == [1, 2, 3, 4]
    assert fair_newest([]) == []


def test_the_first_rows_of_each_are_a_pool() -> None:
    """As many of one as of the others, in their order; two users are none."""
    assert fair_rows(list("aaabca"), 9) == [0, 3, 4]
    assert fair_rows(list("aabbccdd"), 9) == list(range(8))
    assert fair_rows(list("aabbccdd"), 4) == [0, 2, 4, 6]
    assert fair_rows(list("ab"), 9) == []
