"""The monitor of jobs that run together: means, floors and cooldowns."""

from dataclasses import replace
from math import inf, nan

import pytest

from slurm_ext.policy.colocation import colocation_monitor as monitor
from slurm_ext.policy.colocation.choose_pairs import (
    pairs,
    why_not,
)
from slurm_ext.policy.colocation.colocation_monitor import (
    CoLocation,
    CoLocationState,
    PairCooldown,
    Window,
    add_cooldown,
    kept_apart,
    update,
)
from slurm_ext.policy.colocation.terms import Pair
from tests.policy.colocation.sharers import RULES, Table, job


def test_a_pair_is_frozen_facts() -> None:
    """Sorted jobs, speeds by job, seconds, a place and a reason."""
    (pair,) = pairs([job("b"), job("a")], [], Table(), rules=RULES)
    assert isinstance(pair, Pair)
    assert (pair.jobs, sorted(pair.speeds), pair.weight) == (("a", "b"), ["a", "b"], 100.0)
    assert why_not(job("a"), [job("b", place="n1")], Table(), RULES) is None


def test_the_monitor_s_constants() -> None:
    """A minute, three windows, 3 % of speed, a tenth of memory; a week to a quarter, a year."""
    assert (monitor.PATIENCE_S, monitor.WINDOWS, monitor.MARGIN) == (60.0, 3, 0.03)
    assert (monitor.EXCEEDED, monitor.FORGET_S) == (1.10, 365 * 86400.0)
    fresh = CoLocation(job="a", floor=0.8)
    assert (fresh.patience_s, fresh.requested_mem_bytes, fresh.mean_speed) == (60.0, None, None)
    assert fresh.state is CoLocationState.FINE
    assert [state.value for state in CoLocationState] == [
        "at or above its floor",
        "below its floor for a while",
        "takes more memory than it said",
    ]


def test_the_mean_speed_is_of_the_time_seen() -> None:
    """Windows without a speed do not count; their memory does."""
    fresh = CoLocation(job="a", floor=0.8, requested_mem_bytes=100.0)
    after = update(update(fresh, Window(seconds=10.0, speed=0.5)), Window(seconds=30.0, speed=0.9))
    assert after.seen_s == 40.0
    assert after.mean_speed == pytest.approx(0.8)
    unseen = update(after, Window(seconds=5.0, mem_bytes=120.0))
    assert (unseen.seen_s, unseen.worked, unseen.most_mem_bytes) == (40.0, after.worked, 120.0)
    assert unseen.state is CoLocationState.MEMORY_EXCEEDED
    assert replace(unseen, requested_mem_bytes=None).state is CoLocationState.FINE
    at_bound = replace(unseen, requested_mem_bytes=10.0, most_mem_bytes=1.10 * 10.0)
    assert at_bound.state is CoLocationState.FINE
    assert replace(unseen, requested_mem_bytes=0.0).state is CoLocationState.MEMORY_EXCEEDED
    assert update(fresh, Window(seconds=nan, speed=0.5, mem_bytes=999.0)) == fresh
    assert update(fresh, Window(seconds=1.0, speed=inf, mem_bytes=nan)) == fresh


def test_time_well_above_the_floor_takes_away_what_was_below() -> None:
    """At the margin's end it does; windows are forgotten with the last second."""
    below = CoLocation(job="a", floor=0.5, below_s=10.0, windows_below=2)
    at_margin = update(below, Window(seconds=4.0, speed=0.53))
    assert (at_margin.below_s, at_margin.windows_below) == (6.0, 2)
    assert update(below, Window(seconds=10.0, speed=1.0)).windows_below == 0
    assert update(below, Window(seconds=10.0, speed=1.0)).below_s == 0.0
    again = update(below, Window(seconds=3.0, speed=0.49))
    assert (again.below_s, again.windows_below) == (13.0, 3)


def test_every_two_of_those_that_were_together_are_kept_apart() -> None:
    """Runs of one key as well; each time counts; what is a year old is forgotten."""
    year = 365 * 86400.0
    old = {
        frozenset("ab"): PairCooldown(5.0, 2),
        frozenset("xy"): PairCooldown(5.0),
        frozenset("pq"): PairCooldown(6.0),
    }
    now_s = 5.0 + year - 0.5
    found = add_cooldown(old, ["b", "a", "c"], now_s)
    assert found == old | {
        frozenset("ab"): PairCooldown(now_s, 3),
        frozenset("ac"): PairCooldown(now_s, 1),
        frozenset("bc"): PairCooldown(now_s, 1),
    }
    assert add_cooldown(old, ["a"], 5.0 + year) == {frozenset("pq"): PairCooldown(6.0)}
    assert add_cooldown({}, ["a", "a"], 7.0) == {frozenset("a"): PairCooldown(7.0, 1)}
    assert add_cooldown({}, ["a", ""], 7.0) == {}
    assert add_cooldown({}, [], 7.0) == {}
    assert old[frozenset("ab")] == PairCooldown(5.0, 2)


def test_kept_apart_are_those_whose_cooldown_holds() -> None:
    """On its last second no more."""
    week = 7 * 86400.0
    cooldowns = {frozenset("ab"): PairCooldown(0.0), frozenset("c"): PairCooldown(1.0)}
    assert kept_apart(cooldowns, week - 1) == {frozenset("ab"), frozenset("c")}
    assert kept_apart(cooldowns, week) == {frozenset("c")}
    assert kept_apart(cooldowns, week + 1) == frozenset()
