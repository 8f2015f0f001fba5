"""The watch over jobs that share: patient, fair, and with a memory that fades."""

from math import nan

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.policy.colocation.colocation_monitor import (
    FORGET_S,
    KEEP_S,
    CoLocation,
    CoLocationState,
    Window,
    add_cooldown,
    kept_apart,
    update,
)

FRESH = CoLocation(job="a", floor=0.85, requested_mem_bytes=100.0, patience_s=30.0)


def seen(*windows: tuple[float, float | None]) -> CoLocation:
    """A fresh watch after windows of (seconds, speed)."""
    colocation = FRESH
    for seconds, speed in windows:
        colocation = update(colocation, Window(seconds=seconds, speed=speed))
    return colocation


def test_a_while_below_the_floor_is_found() -> None:
    """Thirty seconds of three windows below are enough, twenty are not."""
    assert seen(*[(10, 0.5)] * 2).state is CoLocationState.FINE
    assert seen(*[(10, 0.5)] * 3).state is CoLocationState.BELOW


def test_one_long_slow_window_is_no_verdict() -> None:
    """A checkpoint takes long and says nothing of the companion."""
    assert seen((100, 0.1)).state is CoLocationState.FINE


def test_seconds_well_above_make_up_for_seconds_below() -> None:
    """Now and then below is not below for a while."""
    assert seen(*[(10, 0.5), (10, 0.95)] * 20).state is CoLocationState.FINE
    assert seen(*[(10, 0.5), (10, 0.95), (10, 0.5)] * 20).state is CoLocationState.BELOW


def test_just_above_the_floor_neither_adds_nor_takes() -> None:
    """A pair at its floor does not flap."""
    assert seen((10, 0.5), (10, 0.5), (500, 0.86), (10, 0.5)).state is CoLocationState.BELOW


def test_what_was_not_measured_tells_nothing() -> None:
    """No window, no speed, no number: the watch is as it was."""
    for window in (Window(seconds=10), Window(seconds=0, speed=0.1), Window(seconds=9, speed=nan)):
        assert update(FRESH, window) == FRESH


def test_a_lie_about_memory_is_found_at_once() -> None:
    """More than what was said by a tenth; without a word said there is no lie."""
    assert update(FRESH, Window(seconds=1, mem_bytes=109.0)).state is CoLocationState.FINE
    lying = update(FRESH, Window(seconds=1, mem_bytes=111.0))
    assert update(lying, Window(seconds=1, mem_bytes=5.0)).state is CoLocationState.MEMORY_EXCEEDED
    silent = CoLocation(job="a", floor=0.85)
    assert update(silent, Window(seconds=1, mem_bytes=1e12)).state is CoLocationState.FINE


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 20), st.floats(0.85, 1.5)), max_size=30))
def test_whoever_never_was_below_is_never_found_below(windows: list[tuple[float, float]]) -> None:
    """No false alarm."""
    assert seen(*windows).state is CoLocationState.FINE


@settings(deadline=None)
@given(st.lists(st.floats(1, 20), min_size=3, max_size=30))
def test_whoever_is_always_below_is_found_within_the_patience(lengths: list[float]) -> None:
    """Found with the window in which the patience and three windows are both over."""
    colocation, total = FRESH, 0.0
    for count, seconds in enumerate(lengths, 1):
        colocation, total = update(colocation, Window(seconds=seconds, speed=0.6)), total + seconds
        assert (colocation.state is CoLocationState.BELOW) == (
            colocation.below_s >= 30 and count >= 3
        )


def test_the_mean_speed_is_weighed_by_time() -> None:
    """What is learned of a pair is seconds of work in seconds together."""
    assert seen((10, 0.5), (30, 0.9)).mean_speed == 0.8
    assert FRESH.mean_speed is None


def test_memory_fades_and_returns_twice_as_long() -> None:
    """A week the first time, two the next; then another chance."""
    once = add_cooldown({}, ["a", "b"], 0.0)
    assert kept_apart(once, KEEP_S - 1) == {frozenset("ab")}
    assert not kept_apart(once, KEEP_S)
    twice = add_cooldown(once, ["b", "a"], 10.0)
    assert kept_apart(twice, 2 * KEEP_S)
    assert not kept_apart(twice, 2 * KEEP_S + 10)


def test_twins_and_nameless_jobs() -> None:
    """Two runs of the same job are one key; a job without a key is remembered nowhere."""
    assert kept_apart(add_cooldown({}, ["a", "a"], 0.0), 1.0) == {frozenset("a")}
    assert not add_cooldown({}, ["a", ""], 0.0)
    assert len(add_cooldown({}, "abc", 0.0)) == 3


def test_what_is_long_ago_is_forgotten() -> None:
    """A memory that is written each round does not grow for ever."""
    old = add_cooldown({}, ["a", "b"], 0.0)
    assert set(add_cooldown(old, ["c", "d"], FORGET_S - 1.0)) == {frozenset("ab"), frozenset("cd")}
    assert set(add_cooldown(old, ["c", "d"], FORGET_S)) == {frozenset("cd")}
