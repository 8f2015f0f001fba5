"""The watch over jobs that share: patient, fair, and with a memory that fades."""

from math import nan

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.policy.colocation.colocation_monitor import (
    FORGET_S,
    KEEP_S,
    Companion,
    Found,
    Window,
    kept_apart,
    remembered,
    watched,
)

FRESH = Companion(job="a", floor=0.85, said_mem_bytes=100.0, patience_s=30.0)


def seen(*windows: tuple[float, float | None]) -> Companion:
    """A fresh watch after windows of (seconds, speed)."""
    companion = FRESH
    for seconds, speed in windows:
        companion = watched(companion, Window(seconds=seconds, speed=speed))
    return companion


def test_a_while_below_the_floor_is_found() -> None:
    """Thirty seconds of three windows below are enough, twenty are not."""
    assert seen(*[(10, 0.5)] * 2).found is Found.FINE
    assert seen(*[(10, 0.5)] * 3).found is Found.BELOW


def test_one_long_slow_window_is_no_verdict() -> None:
    """A checkpoint takes long and says nothing of the companion."""
    assert seen((100, 0.1)).found is Found.FINE


def test_seconds_well_above_make_up_for_seconds_below() -> None:
    """Now and then below is not below for a while."""
    assert seen(*[(10, 0.5), (10, 0.95)] * 20).found is Found.FINE
    assert seen(*[(10, 0.5), (10, 0.95), (10, 0.5)] * 20).found is Found.BELOW


def test_just_above_the_floor_neither_adds_nor_takes() -> None:
    """A pair at its floor does not flap."""
    assert seen((10, 0.5), (10, 0.5), (500, 0.86), (10, 0.5)).found is Found.BELOW


def test_what_was_not_measured_tells_nothing() -> None:
    """No window, no speed, no number: the watch is as it was."""
    for window in (Window(seconds=10), Window(seconds=0, speed=0.1), Window(seconds=9, speed=nan)):
        assert watched(FRESH, window) == FRESH


def test_a_lie_about_memory_is_found_at_once() -> None:
    """More than what was said by a tenth; without a word said there is no lie."""
    assert watched(FRESH, Window(seconds=1, mem_bytes=109.0)).found is Found.FINE
    lying = watched(FRESH, Window(seconds=1, mem_bytes=111.0))
    assert watched(lying, Window(seconds=1, mem_bytes=5.0)).found is Found.LIES
    silent = Companion(job="a", floor=0.85)
    assert watched(silent, Window(seconds=1, mem_bytes=1e12)).found is Found.FINE


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 20), st.floats(0.85, 1.5)), max_size=30))
def test_whoever_never_was_below_is_never_found_below(windows: list[tuple[float, float]]) -> None:
    """No false alarm."""
    assert seen(*windows).found is Found.FINE


@settings(deadline=None)
@given(st.lists(st.floats(1, 20), min_size=3, max_size=30))
def test_whoever_is_always_below_is_found_within_the_patience(lengths: list[float]) -> None:
    """Found with the window in which the patience and three windows are both over."""
    companion, total = FRESH, 0.0
    for count, seconds in enumerate(lengths, 1):
        companion, total = watched(companion, Window(seconds=seconds, speed=0.6)), total + seconds
        assert (companion.found is Found.BELOW) == (companion.below_s >= 30 and count >= 3)


def test_the_mean_speed_is_weighed_by_time() -> None:
    """What is learned of a pair is seconds of work in seconds together."""
    assert seen((10, 0.5), (30, 0.9)).mean_speed == 0.8
    assert FRESH.mean_speed is None


def test_memory_fades_and_returns_twice_as_long() -> None:
    """A week the first time, two the next; then another chance."""
    once = remembered({}, ["a", "b"], 0.0)
    assert kept_apart(once, KEEP_S - 1) == {frozenset("ab")}
    assert not kept_apart(once, KEEP_S)
    twice = remembered(once, ["b", "a"], 10.0)
    assert kept_apart(twice, 2 * KEEP_S)
    assert not kept_apart(twice, 2 * KEEP_S + 10)


def test_twins_and_nameless_jobs() -> None:
    """Two runs of the same job are one key; a job without a key is remembered nowhere."""
    assert kept_apart(remembered({}, ["a", "a"], 0.0), 1.0) == {frozenset("a")}
    assert not remembered({}, ["a", ""], 0.0)
    assert len(remembered({}, "abc", 0.0)) == 3


def test_what_is_long_ago_is_forgotten() -> None:
    """A memory that is written each round does not grow for ever."""
    old = remembered({}, ["a", "b"], 0.0)
    assert set(remembered(old, ["c", "d"], FORGET_S - 1.0)) == {frozenset("ab"), frozenset("cd")}
    assert set(remembered(old, ["c", "d"], FORGET_S)) == {frozenset("cd")}
