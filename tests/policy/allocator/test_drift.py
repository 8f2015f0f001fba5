"""Drift is told from noise, from pauses and from single odd windows."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.policy.allocator.drift import OFF, WINDOWS, DriftState, update


def after(*windows: float, expected: float = 100.0) -> DriftState:
    """The watch after these windows."""
    return reduce(update, windows, DriftState(expected=expected))


@given(st.lists(st.floats(-OFF * 0.99, OFF * 0.99), max_size=60))
def test_noise_within_the_bound_is_never_drift(noise: list[float]) -> None:
    """Whatever the order of windows, none of which is off by more than a tenth."""
    assert after(*(100 * (1 + one) for one in noise)).verdict == "steady"


@pytest.mark.parametrize("rate", [70.0, 85.0, 120.0, 400.0])
def test_a_lasting_change_is_found(rate: float) -> None:
    """Either way, soon after it began; and not before the third window."""
    steady = after(*[100.0] * 10)
    windows = [rate] * (WINDOWS + 3)
    assert reduce(update, windows, steady).verdict == "drifted"
    assert reduce(update, windows[: WINDOWS - 1], steady).verdict == "steady"


@pytest.mark.parametrize("odd", [1.0, 50.0, 1000.0, 1e9])
def test_one_odd_window_is_not_drift(odd: float) -> None:
    """However odd, and although the moving average takes long to forget it."""
    watch = after(100.0, 100.0, odd)
    for _ in range(20):
        watch = update(watch, 100.0)
        assert watch.verdict == "steady"


def test_windows_off_to_both_sides_are_noise() -> None:
    """A job that swings is not one that has changed."""
    assert after(*[200.0, 50.0] * 10).verdict == "steady"


@pytest.mark.parametrize("nothing", [0.0, -1.0, float("nan"), float("inf")])
def test_windows_without_a_measurement_tell_nothing(nothing: float) -> None:
    """A pause neither starts a drift nor ends one that has begun."""
    assert after(*[nothing] * 9).verdict == "steady"
    assert after(*[70.0] * 9, nothing).verdict == "drifted"
    assert after(70.0, nothing, 70.0, nothing, 70.0).verdict == "drifted"


def test_without_a_belief_nothing_drifts() -> None:
    """A job of which no rate is expected cannot be off."""
    assert after(*[5.0] * 9, expected=0.0).verdict == "steady"
