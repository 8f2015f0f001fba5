"""Change to a better division of a node only if it is worth it. Pure.

Every change costs each job that it touches `switch_cost_s` seconds of its work, and predictions
are never exact. So the gain over the jobs' remaining time has to exceed that cost and a margin,
and the last change must be `cooldown_s` ago, unless a job has become known since. Where the state
itself is not valid, and when a job has started or ended, the new division is taken at once: shares
hold from the first second, and what an ended job had is not left idle.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.core.errors import InputError
from slurm_ext.policy.allocator.allocate import ROUNDING, Allocation, allocate, allocation
from slurm_ext.policy.allocator.before_after import JobDelta, deltas
from slurm_ext.policy.allocator.job_demands import JobDemand
from slurm_ext.policy.allocator.operating_points import OperatingPoint

MARGIN = 0.05
COOLDOWN_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retune:
    """Decision to change or not, the allocation afterwards, and the reason."""

    change: bool
    allocation: Allocation
    reason: str
    gain: float = 0.0  # of the objective, as a part of what it is now


def retune(
    demands: Sequence[JobDemand],
    units: int,
    *,
    now_s: float,
    changed_s: float | None,
    switch_cost_s: float,
    ended: bool = False,
    io_bytes_per_s: float | None = None,
    margin: float = MARGIN,
    cooldown_s: float = COOLDOWN_S,
) -> Retune:
    """The division to have from `now_s` on; `changed_s`: when it was changed last, None: never.

    `ended`: a job has ended since. A job that has started is one whose `now` is None. What cannot
    be divided is left as it is, and the reason says why: no error is raised.
    """
    try:
        wanted = allocate(demands, units, io_bytes_per_s=io_bytes_per_s)
    except InputError as error:
        return Retune(change=False, allocation=_as_is(demands, units), reason=str(error))
    rows = deltas(demands, wanted, io_bytes_per_s)
    change, reason = _verdict(
        rows,
        units,
        resting=changed_s is not None and now_s - changed_s < cooldown_s,
        ended=ended,
        switch_cost_s=switch_cost_s,
        margin=margin,
    )
    return Retune(
        change=change,
        allocation=wanted if change else _standing_allocation(rows, units),
        reason=reason,
        gain=_gain(rows),
    )


def _verdict(
    rows: Sequence[JobDelta],
    units: int,
    *,
    resting: bool,
    ended: bool,
    switch_cost_s: float,
    margin: float,
) -> tuple[bool, str]:
    """True to change, with the first reason that decides."""
    if not any(row.moved for row in rows):
        return False, "the division is the best one known already"
    if any(row.demand.now is None for row in rows):
        return True, "a job has started"
    if sum(row.have.units for row in rows) > units:
        return True, f"more units are given out than the node's {units}"
    if ended and sum(row.gain for row in rows) > ROUNDING:
        return True, "a job has ended"
    if resting and not any(row.demand.news for row in rows):
        return False, "changed only just now"
    if any(row.short(margin) for row in rows):
        return True, "a job is below its share"
    return _worth_it(rows, switch_cost_s, margin)


def _gain(rows: Sequence[JobDelta]) -> float:
    have = sum(row.worth for row in rows)
    return sum(row.gain for row in rows) / have if have else 0.0


def _worth_it(rows: Sequence[JobDelta], switch_cost_s: float, margin: float) -> tuple[bool, str]:
    """Seconds of work (of a job at its share) gained, against those lost by changing."""
    gained = sum(row.gain * row.left_s for row in rows)
    lost = switch_cost_s * sum(row.worth for row in rows if row.moved)
    wanted = margin * sum(row.worth * row.left_s for row in rows)
    reason = f"{gained:.1f} s of work gained, {lost:.1f} s lost by changing, margin {wanted:.1f} s"
    return gained > lost + wanted, reason


def _standing_allocation(rows: Sequence[JobDelta], units: int) -> Allocation:
    return allocation(
        [row.demand for row in rows],
        [row.have for row in rows],
        [row.share for row in rows],
        units,
    )


def _as_is(demands: Sequence[JobDemand], units: int) -> Allocation:
    """Allocation as it is, where nothing can be divided: each job counts as at its share."""
    have = {
        demand.job: demand.now
        or OperatingPoint(units=demand.share_units, workers=None, samples_per_s=0.0)
        for demand in demands
    }
    return Allocation(
        points=have,
        reason=dict.fromkeys(have, "left as it is"),
        value=sum(demand.weight for demand in demands),
        spare_units=max(0, units - sum(point.units for point in have.values())),
    )
