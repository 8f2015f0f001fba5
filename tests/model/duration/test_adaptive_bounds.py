"""Moved bounds, step by step."""

from math import e, exp, log

import numpy as np
import pytest

from slurm_ext.model.duration.adaptive_bounds import MOST_LOG, STEP, AdaptiveBounds

IN, OUT = -STEP * 0.05, STEP * 0.95


def test_a_job_outlives_its_bounds_or_not() -> None:
    """The lower one must be outlived, the higher one must not; each moves its own bin once."""
    bounds = AdaptiveBounds()
    assert bounds.watch("a", 100.0, 1, log(10), log(50)) == (log(10), log(50))
    bounds.advance(110.0)  # due then, not before it
    assert bounds.low == [0.0, 0.0, 0.0]
    bounds.advance(110.1)
    assert bounds.low == [0.0, pytest.approx(IN), 0.0]
    bounds.ended("a", 140.0)
    assert bounds.high == [0.0, pytest.approx(IN), 0.0]
    assert bounds.low == [0.0, pytest.approx(IN), 0.0]
    bounds.ended("a", 150.0)  # again: no longer watched
    assert bounds.high[1] == pytest.approx(IN)


def test_an_early_end_and_a_late_one_are_misses() -> None:
    """Below the lower bound, beyond the higher one: that bound moves outwards by most of a step."""
    bounds = AdaptiveBounds()
    bounds.watch("short", 0.0, 0, log(10), log(50))
    bounds.ended("short", 5.0)
    assert (bounds.low[0], bounds.high[0]) == pytest.approx((OUT, IN))
    bounds = AdaptiveBounds()
    bounds.watch("long", 0.0, 2, log(10), log(50))
    bounds.ended("long", 60.0)
    assert (bounds.low[2], bounds.high[2]) == pytest.approx((IN, OUT))


def test_moved_bounds_apply_to_the_next_job_and_never_cross() -> None:
    """Outwards of its own bin; where they would cross, both are the middle."""
    bounds = AdaptiveBounds([0.5, 0.0, 0.0], [0.25, 0.0, 0.0])
    assert bounds.watch("a", 0.0, 0, 1.0, 2.0) == (0.5, 2.25)
    assert bounds.watch("b", 0.0, 1, 1.0, 2.0) == (1.0, 2.0)
    crossed = AdaptiveBounds([-2.0, 0.0, 0.0], [-2.0, 0.0, 0.0])
    assert crossed.watch("c", 0.0, 0, 1.0, 2.0) == (1.5, 1.5)
    assert AdaptiveBounds().watch("d", 0.0, 0, 1.0, 1e6) == (1.0, 1e6)


def test_bounds_beyond_every_clock_are_due_late() -> None:
    """Cut where the exponential would overflow."""
    bounds = AdaptiveBounds()
    bounds.watch("a", 0.0, 0, 0.0, 1e6)
    bounds.advance(exp(MOST_LOG) * 0.99)
    assert bounds.high[0] == 0.0
    bounds.advance(exp(MOST_LOG) * e)
    assert bounds.high[0] == pytest.approx(OUT)


def test_held_out_jobs_set_the_first_bounds() -> None:
    """The 95 % quantile of each side and bin with at least 20 jobs; others stay."""
    bounds = AdaptiveBounds()
    below, above = np.arange(41) / 100, -np.arange(41) / 100
    bounds.start([0] * 21 + [1] * 19 + [2], below, above)
    assert bounds.low == [pytest.approx(0.19), 0.0, 0.0]
    assert bounds.high == [pytest.approx(-0.01), 0.0, 0.0]
    bounds.start([1] * 20, below[:20], above[:20])
    assert bounds.low[1] == pytest.approx(0.1805)


def test_no_user_has_more_than_a_share_of_the_first_bounds() -> None:
    """A user of most jobs, all well inside, leaves the bounds to those whose jobs were not."""
    owners = ["mallory"] * 97 + ["ada", "bob", "eve"]
    outside = np.array([-5.0] * 97 + [1.0] * 3)
    alike, fair = AdaptiveBounds(), AdaptiveBounds()
    alike.start([0] * 100, outside, outside)
    fair.start([0] * 100, outside, outside, owners)
    assert (alike.low[0], alike.high[0]) == (-5.0, -5.0)
    assert (fair.low[0], fair.high[0]) == (1.0, 1.0)


def test_an_unwatched_end_moves_both_bounds() -> None:
    """By how far it fell outside the unmoved ones; exactly on a moved bound is inside."""
    bounds = AdaptiveBounds([0.1, 0.0, 0.0], [0.1, 0.0, 0.0])
    bounds.update(0, 0.1, 0.11)
    assert bounds.low[0] == pytest.approx(0.1 + IN)
    assert bounds.high[0] == pytest.approx(0.1 + OUT)
    copy = bounds.copy()
    copy.update(0, 9.0, 9.0)
    assert bounds.low[0] == pytest.approx(0.1 + IN)
    assert copy.step == bounds.step
