"""Outcomes bite: a miss widens the next interval, three in a row leave a job as written."""

from dataclasses import replace

import pytest

from slurm_ext.advisor.evidence.standing import (
    NEWEST_OF_SCRIPT,
    NONE_OF,
    WIDEST,
    Standing,
    Standings,
    site_standing,
    standing_of,
    standing_of_user,
)
from slurm_ext.core.records import Level
from slurm_ext.history.views.outcomes import Residual, why_stopped

HALF = 1.2  # half width, as a ratio, of what is predicted without a factor
KEYS = {Level.SCRIPT_ARGS: 11, Level.SCRIPT: 1}
NOT_AS_PREDICTED = "its last 3 runs were not as predicted"


def outcome(
    miss: float,
    *,
    factor: float = 1.0,
    keys: tuple[int | None, int | None] = (11, 1),
    user: str = "ada",
    partition: str | None = "gpu",
    as_written_low: float | None = None,
    beside: bool = False,
) -> Residual:
    """One whose run lies so many half widths above what was predicted (below: negative)."""
    return Residual(
        predicted=100.0,
        low=100.0 / HALF**factor,
        high=100.0 * HALF**factor,
        achieved=100.0 * HALF**miss,
        level=Level.SCRIPT,
        runs=1,
        factor=factor,
        acted=as_written_low is not None,
        as_written_low=as_written_low,
        crowded=beside,
        user=user,
        partition=partition,
        keys=keys,
    )


def standing(
    *newest: Residual,
    keys: dict[Level, int] = KEYS,
    user: str = "ada",
    partition: str | None = "gpu",
    factor: float = 1.0,
) -> Standing:
    """Of one submission, by the outcomes of ada, newest first."""
    known = Standings({"ada": standing_of_user(newest)})
    return standing_of(known, keys, user, partition, factor)


@pytest.mark.parametrize("miss", [-3.0, 1.5, 7.0])
def test_one_miss_widens_the_next_interval_so_far_that_it_would_have_held_it(miss: float) -> None:
    """On either side of the interval, whatever the others said."""
    found = standing(outcome(miss), *[outcome(0.2)] * 30)
    assert found.factor == pytest.approx(abs(miss))
    assert HALF**-found.factor <= HALF**miss * 1.0001
    assert found.stopped == ""


def test_an_interval_shrinks_as_outcomes_fall_inside() -> None:
    """A miss counts until nine newer ones are known; a widened interval does not compound."""
    inside = outcome(0.5, factor=3.0)
    before = standing(*[inside] * (NEWEST_OF_SCRIPT - 1), outcome(3.0))
    after = standing(*[inside] * NEWEST_OF_SCRIPT, outcome(3.0))
    assert before.factor == pytest.approx(3.0)
    assert after.factor == 1.0


def test_the_factor_of_all_outcomes_is_never_made_smaller() -> None:
    """A script's own outcomes widen only."""
    assert standing(*[outcome(0.1)] * 9, factor=2.5).factor == 2.5
    assert standing(outcome(4.0), factor=2.5).factor == pytest.approx(4.0)
    assert standing(factor=0.7).factor == 0.7


def test_an_absurd_outcome_widens_within_bounds() -> None:
    """A prediction of nothing has no half width to measure by."""
    nothing = replace(outcome(1.0), predicted=0.0, low=0.0, high=0.0)
    assert standing(nothing).factor == WIDEST
    assert standing(outcome(500.0)).factor == WIDEST


def test_another_partition_has_a_width_of_its_own() -> None:
    """Its nodes are others; but a script that the model does not know is left alone in both."""
    elsewhere = standing(*[outcome(4.0, partition="old")] * 3)
    assert (elsewhere.factor, elsewhere.stopped) == (1.0, NOT_AS_PREDICTED)
    assert standing(outcome(4.0, partition="old"), partition="old").factor == pytest.approx(4.0)


@pytest.mark.parametrize("level", [Level.USER_NAME, Level.KIND, Level.CLUSTER])
def test_what_other_programs_foretold_widens_nothing_that_its_own_runs_foretell(
    level: Level,
) -> None:
    """A script's first job is told by its kind; from then on its own runs are known."""
    first = replace(outcome(9.0), level=level)
    assert standing(first).factor == 1.0
    assert standing(outcome(1.5), first).factor == pytest.approx(1.5)
    assert standing(first, first, first).stopped == NOT_AS_PREDICTED


def test_each_world_has_a_width_of_its_own() -> None:
    """A miss beside others says nothing of the interval on cores of its own."""
    found = standing(outcome(4.0, beside=True), outcome(2.0))
    assert found.factor == pytest.approx(2.0)
    assert found.factor_beside == pytest.approx(4.0)


def test_three_outcomes_in_a_row_that_miss_stop_acting_until_one_is_inside() -> None:
    """Two do not; one inside between them, or after them, ends it."""
    good, bad = outcome(0.5), outcome(2.0)
    assert standing(bad, bad, good).stopped == ""
    assert standing(bad, bad, good, bad, bad).stopped == ""
    assert standing(bad, bad, outcome(-2.0), good).stopped == NOT_AS_PREDICTED
    widened = outcome(1.9, factor=2.0)
    assert standing(widened, bad, bad, bad).stopped == ""


def test_two_changed_runs_slower_than_as_written_are_enough() -> None:
    """Although their own intervals, of the changed job, held them."""
    slower = outcome(-0.9, as_written_low=99.0)
    assert slower.inside
    why = "its last changed runs were slower than as written"
    assert why_stopped([slower, slower]) == why_stopped([outcome(-5.0), slower, slower]) == why
    assert why_stopped([slower]) == why_stopped([outcome(0.0), slower, slower]) == ""
    assert why_stopped([replace(slower, acted=False)] * 2) == ""
    assert why_stopped([outcome(0.9, as_written_low=99.0)] * 3) == ""


def test_other_numbers_count_while_few_runs_have_the_very_arguments() -> None:
    """A sweep whose first three jobs miss is left alone; one that is known well is not."""
    sweep = [outcome(3.0, keys=(n, 1)) for n in (20, 21, 22)]
    assert standing(*sweep).stopped == NOT_AS_PREDICTED
    assert standing(*sweep).factor == pytest.approx(3.0)
    known = standing(*sweep, *[outcome(0.5)] * 3)
    assert (known.stopped, known.factor) == ("", 1.0)


def test_another_script_is_judged_by_its_own_outcomes() -> None:
    """One bad script stops itself."""
    found = standing(*[outcome(3.0, keys=(21, 2))] * 3, outcome(0.0))
    assert found == Standing(1.0, "")
    assert standing(*[outcome(3.0, keys=(None, None))] * 3) == Standing(1.0, "")


def test_none_of_five_inside_stops_acting_for_the_user() -> None:
    """Whichever scripts they were of, one never seen included."""
    bad = [outcome(3.0, keys=(number, -number)) for number in range(1, NONE_OF + 1)]
    new = {Level.SCRIPT_ARGS: 99, Level.SCRIPT: 98}
    assert "none of its user's last 5 jobs" in standing(*bad, keys=new).stopped
    assert standing(*bad[1:], keys=new).stopped == ""
    assert standing(*bad[1:], outcome(0.5), *bad, keys=new).stopped == ""


def test_other_users_outcomes_neither_widen_nor_stop() -> None:
    """Even of a job with the same keys, which no two users have."""
    assert standing(*[outcome(9.0)] * 50, user="bob") == Standing(1.0, "")


def test_the_site_stops_where_none_of_five_of_three_users_is_inside() -> None:
    """And goes on with the first that is."""
    bad = [outcome(3.0, user=user) for user in ("ada", "bob", "eve", "ada", "bob", "eve")]
    why = site_standing(bad)
    assert why
    assert standing_of(Standings(site=why), KEYS, "zoe", None, 1.0) == Standing(1.0, why)
    assert site_standing([outcome(0.5, user="bob"), *bad]) == ""


@pytest.mark.parametrize("count", [5, 60, 200])
def test_one_user_stops_nobody_else(count: int) -> None:
    """However many bad outcomes: of a third of those that count, he has none too many."""
    flood = [outcome(9.0, user="mallory")] * count
    assert site_standing(flood) == ""
    assert site_standing([*flood, outcome(9.0, user="ada")]) == ""
    others = [outcome(0.5, user=user) for user in ("ada", "bob")]
    assert site_standing([*flood, *others]) == ""
