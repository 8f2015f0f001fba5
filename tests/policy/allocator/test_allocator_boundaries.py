"""Boundaries of the division of a node: each threshold on it, just below it and just above it."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.policy.allocator.allocate import allocate, at_shares, share_or_nothing, total, worth
from slurm_ext.policy.allocator.before_after import HORIZON_S, JobDelta, deltas
from slurm_ext.policy.allocator.drift import DriftState, update
from slurm_ext.policy.allocator.hysteresis import retune
from slurm_ext.policy.allocator.job_demands import (
    JobDemand,
    allowed,
    check,
    promised_point,
    share_point,
    unusable,
)
from slurm_ext.policy.allocator.knapsack_dp import JobOptions, divide, enough, same, value
from slurm_ext.policy.allocator.max_min_share import (
    capped,
    fair_bandwidth,
    latency_weight,
    limited,
    max_min_share,
    proportional,
)
from slurm_ext.policy.allocator.operating_points import (
    OperatingPoint,
    fault,
    operating_points,
    within,
    workers_that_fit,
)


def point(units: int = 1, rate: float = 100.0, workers: int | None = 1, io: float = 0.0) -> Any:
    """An operating point."""
    return OperatingPoint(units=units, workers=workers, samples_per_s=rate, io_bytes_per_s=io)


def demand(
    job: str = "a", *rates: float, share: int = 2, now: OperatingPoint | None = None, **more: Any
) -> JobDemand:
    """A job with these rates for 1, 2, ... units."""
    points = tuple(point(n, rate, n) for n, rate in enumerate(rates, 1))
    return JobDemand(job=job, points=points, share_units=share, now=now, **more)


# -- shares ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "weight"),
    [(0.85, 8.0 / 0.85), (0.8501, 1.0), (0.125, 64.0), (0.1251, 8.0 / 0.1251), (0.126, 8 / 0.126)],
)
def test_latency_weight_at_its_bounds(used: float, weight: float) -> None:
    """Above 85 % of its CPUs a job gets no factor; below an eighth of them no larger one."""
    assert latency_weight(used) == pytest.approx(weight)


def test_shares_of_nothing_are_nothing() -> None:
    """Jobs of no units keep none: there is no proportion to keep."""
    assert proportional({"a": 0}, 5) == {"a": 0}
    assert proportional({"a": 0, "b": 1}, 5) == {"a": 0, "b": 5}
    assert proportional({"a": 1, "b": 1}, 3) == {"a": 2, "b": 1}


# -- storage -----------------------------------------------------------------------------------


def test_a_supply_that_just_suffices_limits_nobody() -> None:
    """The last byte counts."""
    assert max_min_share([1.0, 2.0, 3.0], 6.0) == inf
    assert max_min_share([1.0, 2.0, 3.0], 5.5) == 2.5
    assert max_min_share([3.0, 1.0, 2.0], 3.0) == 1.0
    assert fair_bandwidth([point(io=3.0), point(io=3.0)], None) == inf
    assert fair_bandwidth([point(io=3.0), point(io=3.0)], 4.0) == 2.0


def test_only_those_that_are_held_back_are_capped() -> None:
    """One reader alone never is; a full supply is where the demands reach it but for rounding."""
    full = {"a": point(io=5.0), "b": point(io=5.0), "c": point(io=2.0), "d": point(io=0.0)}
    assert capped(full, 12.0) == {"a": 5.0, "b": 5.0}
    assert capped(full, 12.001) == {}
    assert capped(full, 12.0 / (1 - 1e-6)) == {"a": 5.0, "b": 5.0}
    assert capped({"a": point(io=5.0), "d": point(io=0.0)}, 5.0) == {}
    assert capped({}, 5.0) == {}
    assert capped({"a": point(io=5.0), "b": point(io=5.0)}, 10.0) == {"a": 5.0, "b": 5.0}
    near = {"a": point(io=5.0), "b": point(io=5.0 * (1 - 1e-6)), "c": point(io=4.9)}
    assert set(capped(near, 14.0)) == {"a", "b"}


# -- operating points --------------------------------------------------------------------------


def rates_by_workers(rates: dict[int, float], **lent: float) -> Any:
    """`predict(cores, workers)` as an object with a rate only."""

    class Rate:
        def __init__(self, rate: float) -> None:
            self.samples_per_s = rate

    def predict(cores: float, workers: int) -> Any:
        return Rate(lent.get(f"w{workers}", rates[workers]) if cores == 9 else rates[workers])

    return predict


def test_fewer_workers_win_from_99_5_percent_of_the_best_rate() -> None:
    """On the threshold they are as good; just below it they are not."""
    (best,) = operating_points(rates_by_workers({0: 1.0, 1: 199.0, 2: 200.0}), 1, max_workers=2)
    assert best.workers == 1
    (best,) = operating_points(rates_by_workers({0: 1.0, 1: 198.9, 2: 200.0}), 1, max_workers=2)
    assert best.workers == 2
    assert (best.units, best.samples_per_s, best.io_bytes_per_s) == (1, 200.0, 0.0)


def test_of_equal_workers_those_win_that_use_what_is_lent() -> None:
    """They are chosen among those that are as good for the job's own units."""
    rates = rates_by_workers({0: 1.0, 1: 200.0, 2: 200.0}, w0=9e9, w1=300.0, w2=400.0)
    (lent,) = operating_points(rates, 1, max_workers=2, lent_units=9)
    assert lent.workers == 2
    rates = rates_by_workers({0: 1.0, 1: 200.0, 2: 200.0}, w0=9e9, w1=398.0, w2=400.0)
    (lent,) = operating_points(rates, 1, max_workers=2, lent_units=9)
    assert lent.workers == 1
    (alone,) = operating_points(rates, 1, max_workers=2)
    assert alone.workers == 1


def test_points_need_room_for_the_least_workers() -> None:
    """As many as most is a choice of one; fewer is none."""
    rates = rates_by_workers({0: 1.0, 1: 2.0, 2: 3.0})
    assert [p.workers for p in operating_points(rates, 2, max_workers=2, least_workers=2)] == [2, 2]
    assert operating_points(rates, 2, max_workers=1, least_workers=2) == ()
    assert operating_points(rates, 2, max_workers=2, mem_bytes=1, base_bytes=2) == ()
    (one,) = operating_points(rates, 1, max_workers=2, bytes_per_sample=10.0)
    assert one.io_bytes_per_s == 30.0


@pytest.mark.parametrize(
    ("size", "mem", "base", "most"),
    [
        (10, 100, 0, 4),
        (10, 30, 0, 3),
        (10, 29, 0, 2),
        (10, 30, 30, 0),
        (10, 30, 31, None),
        (10, 30, 1, 2),
        (None, 30, 0, 4),
        (0, 30, 0, 4),
        (-5, 30, 0, 4),
        (1, 30, 0, 4),
        (10, None, 99, 4),
    ],
)
def test_workers_that_fit_into_memory(
    size: int | None, mem: int | None, base: int, most: int | None
) -> None:
    """Four are wanted; an unknown size or limit limits nothing."""
    assert workers_that_fit(4, size, mem, base) == most
    assert workers_that_fit(-1, size, mem, base) in (0, None)


@pytest.mark.parametrize(
    ("curve", "why"),
    [
        ([], "nothing is known"),
        ([point(0)], "ascending order"),
        ([point(1), point(1)], "ascending order"),
        ([point(2), point(1)], "ascending order"),
        ([point(1), point(2, 0.0)], "rate that is not a positive"),
        ([point(1), point(2, -1.0)], "rate that is not a positive"),
        ([point(1), point(2, nan)], "rate that is not a positive"),
        ([point(1), point(2, inf)], "rate that is not a positive"),
        ([point(1, io=-1.0)], "demand of storage"),
        ([point(1, io=nan)], "demand of storage"),
        ([point(1, workers=-1)], "negative number of workers"),
    ],
)
def test_curves_that_cannot_be_used(curve: list[OperatingPoint], why: str) -> None:
    """Each with its reason; workers 0, no change of workers and no reads are sound."""
    assert why in (fault(curve) or "")
    sound = [point(1, workers=0), point(2, 1e-9, workers=None), point(4, io=0.0)]
    assert fault(sound) is None


def test_the_smallest_of_equal_points_is_within() -> None:
    """Up to and with the units that there are."""
    curve = [point(1, 10.0), point(2, 20.0), point(3, 20.0), point(4, 30.0)]
    assert within(curve, 3) == curve[1]
    assert within(curve, 4) == curve[3]
    assert within(curve, 0) is None


# -- demands -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "units", "io", "why"),
    [
        ({}, 0, None, "0 units to divide"),
        ({}, 8, 0.0, "storage of 0.0 bytes/s"),
        ({}, 8, nan, "storage of nan bytes/s"),
        ({"share_units": 0}, 8, None, "its share of 0 units"),
        ({"share_units": 9}, 8, None, "its share of 9 units"),
        ({"least_units": -1}, 8, None, "least_units = -1"),
        ({"weight": 0.0}, 8, None, "weight = 0.0"),
        ({"weight": inf}, 8, None, "weight = inf"),
    ],
)
def test_demands_that_cannot_be_meant(
    changes: dict[str, Any], units: int, io: float | None, why: str
) -> None:
    """Each is named; those on the bound are sound."""
    with pytest.raises(InputError, match=why):
        check([replace(demand("a", 1.0, 2.0), **changes)], units, io)
    check([replace(demand("a", 1.0), share_units=8, least_units=0, weight=1e-9)], 8, 1e-9)
    check([replace(demand("a", 1.0), share_units=1)], 1, None)


def test_shares_have_to_fit_the_node() -> None:
    """Exactly full is sound, and no job may be named twice."""
    pair = [demand("a", 1.0, share=2), demand("b", 1.0, share=2)]
    check(pair, 4, None)
    with pytest.raises(InputError, match="shares of 4 units are promised, it has 3"):
        check(pair, 3, None)
    with pytest.raises(InputError, match="named twice"):
        check([pair[0], pair[0]], 8, None)


def test_a_curve_is_credible_up_to_four_times_proportion() -> None:
    """Units below the share bring no more than four times what it does."""
    assert unusable(demand("a", 50.0, 100.0, 600.0)) is None
    assert unusable(demand("a", 50.0, 100.0, 600.1)) is not None
    assert unusable(demand("a", 100.0, 25.0, share=2)) is None
    assert unusable(replace(demand("a", 1.0, 2.0), points=(point(3),))) is not None
    one = demand("a", 400.0, 100.0, share=1)
    assert unusable(replace(one, points=(point(1, 100.0), point(2, 800.0)))) is None
    assert unusable(replace(one, points=(point(1, 100.0), point(2, 801.0)))) is not None


def test_accelerators_get_their_least_units_up_to_the_share() -> None:
    """Points with fewer units are no choice; more than the share is never demanded."""
    job = demand("a", 30.0, 20.0, 10.0, share=2, least_units=2)
    assert share_point(job) == point(2, 20.0, 2)
    assert [p.units for p in allowed(job, 0.0, inf, inf)] == [2, 3]
    assert [p.units for p in allowed(replace(job, least_units=9), 0.0, inf, inf)] == [2, 3]
    assert [p.units for p in allowed(replace(job, least_units=1), 0.0, inf, inf)] == [1, 2, 3]


def test_what_is_allowed_keeps_the_floor_and_the_frugality() -> None:
    """Both on the bound; a job that agreed has no floor."""
    job = demand("a", 10.0, 20.0, 30.0)
    assert [p.units for p in allowed(job, 20.0, inf, inf)] == [2, 3]
    assert [p.units for p in allowed(replace(job, agreed=True), 20.0, inf, inf)] == [1, 2, 3]
    readers = replace(job, points=tuple(point(n, 10.0 * n, n, 5.0 * n) for n in (1, 2, 3)))
    assert [p.units for p in allowed(readers, 0.0, inf, 10.0)] == [1, 2]
    assert [p.units for p in allowed(readers, 20.0, 10.0, inf)] == [2, 3]
    assert [p.units for p in allowed(readers, 20.1, 10.0, inf)] == []


def test_the_promise_is_the_share_as_the_script_is_written() -> None:
    """Only a slower, positive rate replaces the share's best one."""
    job = demand("a", 10.0, 20.0)
    for rate, promised in ((15.0, 15.0), (20.0, 20.0), (25.0, 20.0), (0.0, 20.0)):
        baseline = point(2, rate, 1)
        got = promised_point(replace(job, baseline=baseline))
        assert got is not None
        assert got.samples_per_s == promised
        assert got.workers == (1 if promised == 15.0 else 2)
    assert promised_point(replace(job, points=())) is None


# -- dynamic programme -------------------------------------------------------------------------


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


# -- the division ------------------------------------------------------------------------------


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


# -- before and after --------------------------------------------------------------------------


def row(have: OperatingPoint, **changes: Any) -> JobDelta:
    """The delta of a job that has this point and is to have its share."""
    job = replace(demand("a", 50.0, 100.0, 150.0, now=have), **changes)
    share = point(2, 100.0, 2)
    return JobDelta(demand=job, have=have, want=share, share=share)


def test_a_gain_counts_for_the_time_that_is_left() -> None:
    """Ten minutes at most, never less than nothing, and all of it where it is unknown."""
    for left_s, counted in ((None, HORIZON_S), (1e9, HORIZON_S), (60.0, 60.0), (-5.0, 0.0)):
        assert row(point(2, 100.0, 2), remaining_s=left_s).left_s == counted
    assert row(point(2, 50.0, 2)).gain == 0.5
    assert row(point(2, 50.0, 2)).worth == 0.5


def test_a_job_is_short_below_its_margin() -> None:
    """On the margin it is not; a job that agreed is not; stranded accelerators always are."""
    assert not row(point(2, 95.0, 2)).short(0.05)
    assert row(point(2, 94.9, 2)).short(0.05)
    assert not row(point(2, 94.9, 2), agreed=True).short(0.05)
    assert row(point(1, 100.0, 2), least_units=2).short(0.05)
    assert row(point(1, 100.0, 2), least_units=2, agreed=True).short(0.05)
    assert not row(point(2, 100.0, 2), least_units=9).short(0.05)
    unknown = JobDelta(
        demand=demand("a"), have=point(1, 0.0), want=point(2, 0.0), share=point(2, 0.0)
    )
    assert unknown.short(0.05)
    assert not replace(unknown, have=point(2, 0.0)).short(0.05)


def test_what_a_job_has_is_read_from_its_present_curve() -> None:
    """Where the curve does not know its workers, its own rate counts; a new job has its share."""
    known = demand("a", 50.0, 100.0, now=point(1, 7.0, 1))
    other = demand("b", 50.0, 100.0, now=point(1, 7.0, 9))
    new = demand("c", 50.0, 100.0)
    jobs = [other, new, known]
    rows = deltas(jobs, allocate(jobs, 6), None)
    assert [(r.demand.job, r.have.samples_per_s) for r in rows] == [
        ("a", 50.0),
        ("b", 7.0),
        ("c", 100.0),
    ]
    assert [r.moved for r in rows] == [True, True, True]
    still = replace(known, now=point(2, 7.0, 2))
    assert not deltas([still], allocate([still], 2), None)[0].moved


# -- hysteresis --------------------------------------------------------------------------------


def decided(*jobs: JobDemand, units: int = 4, **changes: Any) -> tuple[bool, str]:
    """`retune` at 1000 s, with a cost of 10 s."""
    defaults: dict[str, Any] = {"now_s": 1000.0, "changed_s": None, "switch_cost_s": 10.0}
    told = retune(jobs, units, **{**defaults, **changes})
    return told.change, told.reason


def grows(left_s: float | None = None, **more: Any) -> JobDemand:
    """A job at its share of 2 that gains a half from 2 more units."""
    return demand(
        "a", 50.0, 100.0, 120.0, 150.0, now=point(2, 100.0, 2), remaining_s=left_s, **more
    )


def test_a_change_has_to_gain_more_than_cost_and_margin() -> None:
    """0.5 of its work a second, against 10 s once and 5 % of the time that is left."""
    assert decided(grows(left_s=22.3))[0]
    assert not decided(grows(left_s=22.2))[0]
    # gained 0.5 t > 10 + 0.05 t from t = 22.22 on
    assert decided(grows(left_s=20.1), margin=0.0)[0]
    assert not decided(grows(left_s=20.0), margin=0.0)[0]
    assert decided(grows(left_s=1.0), margin=0.0, switch_cost_s=0.0)[0]
    assert not decided(grows(left_s=1.0), margin=0.5, switch_cost_s=0.0)[0]
    assert (
        "11.1 s of work gained, 10.0 s lost by changing, margin 1.1 s"
        in (decided(grows(left_s=22.2))[1])
    )


def test_a_change_waits_for_the_cooldown() -> None:
    """Thirty seconds by default; on its end it is over; a job that became known does not wait."""
    assert decided(grows(), changed_s=970.1) == (False, "changed only just now")
    assert decided(grows(), changed_s=970.0)[0]
    assert decided(grows(), changed_s=990.0, cooldown_s=10.0)[0]
    assert not decided(grows(), changed_s=990.1, cooldown_s=10.0)[0]
    assert decided(grows(news=True), changed_s=999.0)[0]


def test_the_reasons_come_in_order() -> None:
    """Nothing to change, a new job, too much given, an ended job, then a lack."""
    settled = demand("a", 50.0, 100.0, now=point(2, 100.0, 2))
    assert decided(settled) == (False, "the division is the best one known already")
    assert decided(replace(settled, now=None)) == (True, "a job has started")
    wide = demand("a", 50.0, 100.0, 100.0, now=point(3, 100.0, 3))
    assert decided(wide, units=2)[1] == "more units are given out than the node's 2"
    assert decided(wide, units=3)[1] != "more units are given out than the node's 3"
    assert decided(grows(left_s=1.0), ended=True) == (True, "a job has ended")
    assert decided(grows(left_s=1.0))[0] is False
    short = demand("a", 50.0, 100.0, now=point(1, 50.0, 1), remaining_s=1.0)
    assert decided(short) == (True, "a job is below its share")
    assert decided(short, changed_s=999.0) == (False, "changed only just now")


def test_a_full_node_is_not_over_full() -> None:
    """Units that are all given out are no reason to change."""
    steep = demand("a", 50.0, 100.0, 150.0, now=point(2, 100.0, 2), remaining_s=1.0)
    flat = demand("b", 100.0, 100.0, now=point(2, 100.0, 2), remaining_s=1.0)
    assert decided(steep, flat) == (
        False,
        "0.5 s of work gained, 20.0 s lost by changing, margin 0.1 s",
    )


def test_a_change_is_weighed_with_the_jobs_weights() -> None:
    """What it gains, what it costs, and the margin: each is twice as much."""
    assert decided(grows(left_s=22.2, weight=2.0)) == (
        False,
        "22.2 s of work gained, 20.0 s lost by changing, margin 2.2 s",
    )


def test_what_cannot_be_divided_stays() -> None:
    """The reason says why; spare units are what nobody has."""
    kept = retune(
        [demand("a", 1.0, share=9, now=point(3, 5.0)), demand("b", 1.0, share=9)],
        8,
        now_s=0.0,
        changed_s=None,
        switch_cost_s=0.0,
    )
    assert not kept.change
    assert {job: p.units for job, p in kept.allocation.points.items()} == {"a": 3, "b": 9}
    assert (kept.allocation.spare_units, kept.allocation.value, kept.gain) == (0, 2.0, 0.0)


def test_the_gain_is_a_part_of_what_there_is() -> None:
    """Half as much again; nothing where nothing is changed."""
    told = retune([grows()], 4, now_s=0.0, changed_s=None, switch_cost_s=0.0)
    assert told.gain == pytest.approx(0.5)
    assert told.allocation.points["a"].units == 4
    kept = retune([grows(left_s=0.0)], 4, now_s=0.0, changed_s=None, switch_cost_s=0.0)
    assert (kept.change, kept.allocation.points["a"].units) == (False, 2)


# -- drift -------------------------------------------------------------------------------------


def test_a_tenth_off_is_no_drift() -> None:
    """Just beyond it is, in the third window; a side that turns begins again."""
    state = DriftState(expected=100.0)
    for _ in range(3):
        state = update(state, 90.0)
    assert state.windows_off == 0
    for expected, measured in ((-1, 89.9), (1, 110.1)):
        state = DriftState(expected=100.0)
        for count in range(1, 4):
            state = update(state, measured)
            assert state.windows_off == count * expected
            assert state.verdict == ("drifted" if count == 3 else "steady")
    turned = DriftState(expected=100.0, average=100.0, windows_off=2)
    assert update(turned, 50.0).windows_off == -1
    assert update(turned, 50.0).average == 75.0
    assert update(DriftState(expected=100.0, average=50.0, windows_off=-2), 100.0).windows_off == 0
