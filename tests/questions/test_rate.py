"""Bounds on one user's questions, whichever way they come."""

import pytest

from slurm_ext.core.errors import RefusedError
from slurm_ext.questions.rate import ASKS_AT_ONCE, MOST_ASKERS, MOST_OPEN, AskRate


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be moved by hand."""
    now = [100.0]
    monkeypatch.setattr("slurm_ext.questions.rate.time.monotonic", lambda: now[0])
    return now


def test_allowances_of_users_that_ask_are_bounded(clock: list[float]) -> None:
    """Users who have not asked for a while cost no memory; those who just did keep their count."""
    rate = AskRate()
    for uid in range(MOST_ASKERS):
        assert rate.may_ask(uid)
    clock[0] += 1.0
    assert [rate.may_ask(5000) for _ in range(21)] == [True] * 20 + [False]
    clock[0] += 1.0  # those of the first second have full buckets again
    assert rate.may_ask(6000)
    assert set(rate._asks) == {5000, 6000}


def test_a_user_has_few_turns_at_the_same_time(clock: list[float]) -> None:
    """Another user has own ones, and a turn that ended makes room; nobody's is kept in memory."""
    rate = AskRate()
    turns = [rate.turn(1000) for _ in range(MOST_OPEN + 1)]
    for turn in turns[:-1]:
        turn.__enter__()
    with pytest.raises(RefusedError, match="too many questions"), turns[-1]:
        pass
    with rate.turn(1001):
        assert dict(rate._open) == {1000: MOST_OPEN, 1001: 1}
    for turn in turns[:-1]:
        turn.__exit__(None, None, None)
    assert dict(rate._open) == {}


def test_turns_are_counted_with_the_questions_of_the_socket(clock: list[float]) -> None:
    """A user who is refused there is refused here."""
    rate = AskRate()
    while rate.may_ask(1000):
        pass
    with pytest.raises(RefusedError), rate.turn(1000):
        pass
    clock[0] += ASKS_AT_ONCE
    with rate.turn(1000):
        assert rate.may_ask(1000)
