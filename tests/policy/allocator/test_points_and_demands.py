"""Shares, storage, points and demands of a node: each threshold on it, just below and above."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.policy.allocator.job_demands import (
    JobDemand,
    allowed,
    check,
    promised_point,
    share_point,
    unusable,
)
from slurm_ext.policy.allocator.max_min_share import (
    capped,
    fair_bandwidth,
    latency_weight,
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
