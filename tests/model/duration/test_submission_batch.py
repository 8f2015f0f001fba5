"""What jobs submitted together tell of each other: priors, ends, ages, and who belongs together."""

from math import exp, isfinite, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.model.duration.submission_batch import (
    BETWEEN,
    GAP_S,
    MOST_RUNNING,
    MOVES,
    WITHIN,
    SubmissionBatches,
)

KEY = ("ann", "sweep", 1)


def batch(count: int, foretold_s: float = 1000.0) -> SubmissionBatches:
    """Jobs 0, 1, ... of one key, a second after each other."""
    siblings = SubmissionBatches()
    for job in range(count):
        siblings.submitted(job, KEY, float(job), foretold_s)
    return siblings


def test_of_whom_nothing_is_known_is_told_what_was_foretold() -> None:
    """To each its own, and no sibling is named."""
    siblings = batch(2)
    siblings.submitted(2, KEY, 2.0, 50.0)
    for job, foretold_s in ((0, 1000.0), (2, 50.0)):
        told_s, known = siblings.predict(job, 10.0)
        assert told_s == pytest.approx(foretold_s)
        assert not known


def test_who_ended_moves_the_others_the_more_the_more_there_are() -> None:
    """Three of 10 s make a fourth, foretold 1000 s, a short one."""
    siblings, told = batch(5), []
    for job in range(3):
        siblings.started(job, KEY, float(job), 100.0)
        siblings.ended(job, KEY, float(job), 10.0)
        told.append(siblings.predict(4, 200.0))
    assert [known for _, known in told] == [True] * 3
    seconds = [told_s for told_s, _ in told]
    assert 1000.0 > seconds[0] >= seconds[1] >= seconds[2]
    assert 10.0 < seconds[2] < 20.0


def test_one_that_runs_long_makes_its_siblings_long() -> None:
    """And a young one tells nothing yet."""
    siblings = batch(2)
    siblings.started(0, KEY, 0.0, 0.0)
    assert siblings.predict(1, 5.0)[0] == pytest.approx(1000.0, rel=0.01)
    assert siblings.predict(1, 20_000.0)[0] > 5_000.0


def test_short_ones_that_end_first_do_not_make_a_batch_short() -> None:
    """Those that run on weigh against them."""
    ends_only, both = batch(9), batch(9)
    for siblings in (ends_only, both):
        siblings.ended(0, KEY, 0.0, 100.0)
    for job in range(1, 8):
        both.started(job, KEY, float(job), 0.0)
    assert both.predict(8, 30_000.0)[0] > 3 * ends_only.predict(8, 30_000.0)[0]


@pytest.mark.parametrize(
    ("key", "submit_s"), [(("bob",), 0.0), (KEY, 2 * GAP_S), (KEY, -2 * GAP_S)]
)
def test_others_and_those_of_another_time_are_no_siblings(
    key: tuple[str, ...], submit_s: float
) -> None:
    """Whose end tells nothing."""
    siblings = batch(1)
    siblings.ended(9, key, submit_s, 5.0)
    told_s, known = siblings.predict(0, 1.0)
    assert told_s == pytest.approx(1000.0)
    assert not known


def test_it_does_not_matter_in_which_order_one_hears() -> None:
    """After a restart ended jobs are read before those that wait are seen."""
    before, after = SubmissionBatches(), batch(2)
    before.ended(0, KEY, 0.0, 30.0)
    before.submitted(1, KEY, 1.0, 1000.0)
    after.ended(0, KEY, 0.0, 30.0)
    assert before.predict(1, 9.0)[0] == pytest.approx(after.predict(1, 9.0)[0])


def test_little_news_changes_nothing() -> None:
    """A queue is not shuffled for a few per cent; what moved is told once."""
    siblings = batch(4)
    before = [siblings.predict(job, 0.0) for job in range(4)]
    for job, lasted_s in enumerate((1000.0 * (1 + MOVES / 2), 10.0)):
        siblings.started(job, KEY, float(job), 0.0)
        siblings.ended(job, KEY, float(job), lasted_s)
        anew = dict(siblings.changed(0.0, ages=False))
        assert set(anew) == ({2, 3} if job else set())
    assert anew[3] < before[3][0]
    assert not dict(siblings.changed(0.0, ages=True))


def test_who_is_gone_teaches_nothing() -> None:
    """Cancelled while it waited or ran; a requeued one waits again."""
    siblings = batch(3)
    siblings.started(0, KEY, 0.0, 0.0)
    siblings.forget({1, 2})
    alone = siblings.predict(1, 1e6)
    siblings.started(1, KEY, 1.0, 0.0)
    siblings.submitted(1, KEY, 1.0, 1000.0)
    for told_s, known in (alone, siblings.predict(1, 1e6)):
        assert told_s == pytest.approx(1000.0)
        assert not known


@given(
    lasted=st.lists(st.floats(0.0, 1e12), max_size=6),
    since=st.lists(st.floats(-1e12, 1e12), max_size=6),
    foretold_s=st.floats(1e-3, 1e9),
)
def test_any_numbers_give_a_number(
    lasted: list[float], since: list[float], foretold_s: float
) -> None:
    """Above 0, whatever clocks say, and between what was foretold and what was seen."""
    siblings = SubmissionBatches()
    siblings.submitted("me", KEY, 0.0, foretold_s)
    for job, lasted_s in enumerate(lasted):
        siblings.ended(job, KEY, 0.0, lasted_s)
    for job, start_s in enumerate(since, 100):
        siblings.started(job, KEY, 0.0, start_s)
    told_s, known = siblings.predict("me", 0.0)
    assert isfinite(told_s)
    assert known == bool(lasted or since)
    if not since:
        logs = [log(max(1.0, one)) for one in (foretold_s, *lasted)]
        assert min(logs) - 1e-3 <= log(told_s) <= max(logs) + 1e-3


def predicted(ended: list[float], first: list[float], job: float) -> float:
    """Seconds by the formulas: a batch's mean with its prior, and the job's own deviation."""
    prior = sum(map(log, first)) / len(first)
    weight = 1 / BETWEEN + len(ended) / WITHIN
    mean = (prior / BETWEEN + sum(map(log, ended)) / WITHIN) / weight
    share = 1 / (1 + len(ended) * BETWEEN / WITHIN)
    return exp(mean + share * (log(job) - prior))


def test_the_correction_by_ended_siblings_is_its_formula() -> None:
    """Two siblings ended after 20 and 80 s; four had been predicted."""
    batches = SubmissionBatches()
    first = [100.0, 200.0, 400.0, 50.0]
    for job, seconds in enumerate(first):
        batches.submitted(job, KEY, float(job), seconds)
    for job, seconds in ((0, 20.0), (1, 80.0)):
        batches.started(job, KEY, float(job), 10.0)
        batches.ended(job, KEY, float(job), seconds)
    for job in (2, 3):
        seconds, known = batches.predict(job, 100.0)
        assert known
        assert seconds == pytest.approx(predicted([20.0, 80.0], first, first[job]), abs=2e-3)


def test_a_small_change_is_not_reported() -> None:
    """Less than MOVES (log) keeps the old prediction; a new first prediction replaces it."""
    batches = SubmissionBatches()
    batches.submitted("a", KEY, 0.0, 100.0)
    assert batches.predict("a", 0.0) == (100.0, False)
    batches.submitted("b", KEY, 1.0, 100.0)
    batches.started("b", KEY, 1.0, 1.0)
    batches.ended("b", KEY, 1.0, 100.0 * exp(0.9 * MOVES))
    assert batches.predict("a", 2.0) == (100.0, True)
    assert dict(batches.changed(2.0, ages=True)) == {}
    batches.submitted("a", KEY, 0.0, 110.0)
    assert batches.predict("a", 2.0)[0] > 105.0


@pytest.mark.parametrize(("gap_s", "together"), [(GAP_S, True), (GAP_S + 0.1, False)])
def test_a_batch_ends_with_a_gap(gap_s: float, together: bool) -> None:
    """On both sides of its first and last submission."""
    for submit_s in (-gap_s, 50.0 + gap_s):
        batches = SubmissionBatches()
        batches.submitted("a", KEY, 0.0, 100.0)
        batches.submitted("b", KEY, 50.0, 100.0)
        batches.ended("c", KEY, submit_s, 5.0)
        assert batches.predict("a", 60.0)[1] == together


def test_requeued_and_short_jobs() -> None:
    """A job that waits again no longer runs; durations below a second count as one."""
    batches = SubmissionBatches()
    batches.submitted("a", KEY, 0.0, 0.0)
    assert batches.predict("a", 0.0) == (1.0, False)
    batches.started("a", KEY, 0.0, 1.0)
    batches.submitted("a", KEY, 0.0, 100.0)
    assert batches.predict("a", 1e6) == (100.0, False)


def test_only_the_longest_running_siblings_count() -> None:
    """The seventeenth changes nothing."""
    answers = []
    for count in (MOST_RUNNING, MOST_RUNNING + 1):
        batches = SubmissionBatches()
        batches.submitted("a", KEY, 0.0, 1000.0)
        for job in range(count):
            batches.started(job, KEY, 0.0, float(job))
        answers.append(batches.predict("a", 5000.0)[0])
    assert answers[0] == answers[1]
