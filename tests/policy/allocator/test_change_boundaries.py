"""A change of the division: what it gains, costs and waits for, on each threshold and beside it."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.policy.allocator.allocate import allocate
from slurm_ext.policy.allocator.before_after import HORIZON_S, JobDelta, deltas
from slurm_ext.policy.allocator.drift import DriftState, update
from slurm_ext.policy.allocator.hysteresis import retune
from slurm_ext.policy.allocator.job_demands import (
    JobDemand,
)
from slurm_ext.policy.allocator.operating_points import (
    OperatingPoint,
)
from tests.policy.allocator.test_points_and_demands import demand, point


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
