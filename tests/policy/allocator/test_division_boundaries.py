"""The division of a node: each threshold on it, just below it and just above it."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from slurm_ext.policy.allocator.allocate import allocate, at_shares, share_or_nothing, total, worth
from slurm_ext.policy.allocator.knapsack_dp import JobOptions, divide, enough, same, value
from slurm_ext.policy.allocator.max_min_share import (
    limited,
)
from slurm_ext.policy.allocator.operating_points import (
    OperatingPoint,
)
from tests.policy.allocator.test_points_and_demands import demand, point


def options(*points: OperatingPoint, now: OperatingPoint | None = None, **more: Any) -> JobOptions:
    """The options of a job whose share is 2 units and 100 samples/s."""
    fields: dict[str, Any] = {
        "level": inf,
        "enough_samples_per_s": 1e9,
        "share_samples_per_s": 100.0,
        "share_units": 2,
        "weight": 1.0,
        **more,
    }
    return JobOptions(options=tuple(points), now=now, **fields)


def test_the_value_of_a_point() -> None:
    """Rate up to enough; a thousandth of what is beyond; then staying, then nearness."""
    job = options(enough_samples_per_s=150.0)
    assert value(job, point(2, 100.0), 10) == 1.0
    assert value(job, point(2, 150.0), 10) == 1.5
    assert value(job, point(2, 250.0), 10) == pytest.approx(1.501)
    assert value(replace(job, weight=3.0), point(2, 100.0), 10) == 3.0
    assert value(replace(job, now=point(2, 1.0)), point(2, 100.0), 10) == 1.0 + 1e-7
    assert value(replace(job, now=point(3, 1.0)), point(2, 100.0), 10) == 1.0
    assert value(job, point(4, 100.0), 10) == 1.0 - 1e-9 * 0.2
    assert value(job, point(1, 100.0), 10) == 1.0 - 1e-9 * 0.1
    assert value(replace(job, level=5.0), point(2, 100.0, io=10.0), 10) == 0.5


def test_the_division_fills_the_node_and_no_more() -> None:
    """The best division takes exactly all units where that is best."""
    first = options(point(1, 10.0), point(2, 100.0))
    second = options(point(1, 90.0), point(2, 95.0))
    assert [p.units for p in divide([first, second], 3)] == [2, 1]
    assert [p.units for p in divide([first, second], 4)] == [2, 2]
    assert [p.units for p in divide([first, second], 2)] == [1, 1]
    assert [p.units for p in divide([options(point(1, 10.0), point(5, 900.0))], 4)] == [1]
    assert [p.units for p in divide([options(point(1, 10.0), point(4, 900.0))], 4)] == [4]


def test_enough_is_98_percent_of_the_highest() -> None:
    """The first rate that reaches it."""
    assert enough([10.0, 97.9, 98.0, 100.0]) == 98.0
    assert enough([10.0, 100.0, 99.0]) == 100.0
    assert enough([5.0]) == 5.0


def test_what_is_the_same_on_the_node() -> None:
    """Workers that are to be left as they are change nothing."""
    assert same(point(2, 1.0, 3), point(2, 9.0, 3))
    assert same(point(2, 1.0, 3), point(2, 9.0, None))
    assert not same(point(2, 1.0, 3), point(2, 1.0, 4))
    assert not same(point(2, 1.0, 3), point(3, 1.0, 3))
    assert not same(point(2, 1.0, None), point(2, 1.0, 4))


def test_reasons_name_units_and_gain() -> None:
    """More, fewer by agreement, fewer for lack of use, the same, and unknown."""
    jobs = [
        demand("more", 50.0, 100.0, 150.0, 200.0),
        demand("flat", 100.0, 100.0),
        demand("less", 99.0, 100.0, agreed=True),
        replace(demand("same", 50.0, 100.0), points=(point(2, 100.0, 2),)),
        replace(demand("none"), points=()),
    ]
    allocation = allocate(jobs, 10)
    assert dict(allocation.reason) == {
        "more": "2 units beyond its share: +100%",
        "flat": "has no use for 1 unit of its share",
        "less": "does without 1 unit of its share, as agreed: -1%",
        "same": "has its share",
        "none": "keeps its share: nothing is known of its curve yet",
    }
    assert allocation.spare_units == 0
    assert allocation.value == pytest.approx(2 + 1 + 0.99 + 1 + 1)


def test_half_a_percent_below_the_share_is_no_loss() -> None:
    """The rate of a share is kept at 99.5 % of it, and not below."""
    hungry = demand("b", 50.0, 100.0, 150.0)
    kept = allocate([demand("a", 99.5, 100.0), hungry], 4)
    assert {job: p.units for job, p in kept.points.items()} == {"a": 1, "b": 3}
    assert kept.reason["a"] == "has no use for 1 unit of its share"
    lost = allocate([demand("a", 99.4, 100.0), hungry], 4)
    assert {job: p.units for job, p in lost.points.items()} == {"a": 2, "b": 2}


def test_worth_is_weight_times_rate_over_the_shares() -> None:
    """A job of which nothing is known counts as at its share."""
    job = demand("a", 50.0, 100.0, weight=2.0)
    assert worth(job, point(1, 50.0), point(2, 100.0)) == 1.0
    assert worth(job, point(1, 50.0), point(2, 0.0)) == 2.0
    assert total([job, job], [point(1, 50.0)] * 2, [point(2, 100.0)] * 2) == 2.0
    assert share_or_nothing(replace(job, points=())) == point(2, 0.0, None)


def test_shares_divide_the_storage_too() -> None:
    """Each reads up to the level that all leave each other."""
    readers = [
        replace(demand(name), points=(point(2, 100.0, 2, io),))
        for name, io in (("a", 30), ("b", 5))
    ]
    first, second = at_shares(readers, 20.0)
    assert (first.samples_per_s, first.io_bytes_per_s) == (50.0, 15.0)
    assert second.samples_per_s == 100.0
    assert limited(first, 15.0) is first
