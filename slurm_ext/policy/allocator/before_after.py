"""Each job's place before and after a new division of its node. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.policy.allocator.allocate import (
    Allocation,
    at_shares,
    share_or_nothing,
    together,
    worth,
)
from slurm_ext.policy.allocator.job_demands import JobDemand
from slurm_ext.policy.allocator.knapsack_dp import same
from slurm_ext.policy.allocator.operating_points import OperatingPoint

HORIZON_S = 600.0  # as far as a gain is counted, and for jobs whose remaining time is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDelta:
    """One job's points: what it has, what it is to have, and its share."""

    demand: JobDemand
    have: OperatingPoint
    want: OperatingPoint
    share: OperatingPoint

    @property
    def moved(self) -> bool:
        """True if something on the node has to be changed for it."""
        return self.demand.now is None or not same(self.demand.now, self.want)

    @property
    def gain(self) -> float:
        """Of the objective, a second."""
        return worth(self.demand, self.want, self.share) - self.worth

    @property
    def worth(self) -> float:
        """Its part of the objective as it is."""
        return worth(self.demand, self.have, self.share)

    @property
    def left_s(self) -> float:
        """Seconds for which a gain is counted."""
        left = self.demand.remaining_s
        return HORIZON_S if left is None else min(HORIZON_S, max(0.0, left))

    def short(self, margin: float) -> bool:
        """True if it has less than was promised, by more than `margin` of its rate."""
        demand = self.demand
        is_measured = self.share.samples_per_s > 0
        least = min(demand.least_units, demand.share_units) if is_measured else self.share.units
        stranded = self.have.units < least
        slow = self.have.samples_per_s < self.share.samples_per_s * (1 - margin)
        return stranded or (slow and not demand.agreed)


def deltas(
    demands: Sequence[JobDemand], wanted: Allocation, io_bytes_per_s: float | None
) -> list[JobDelta]:
    """Return the delta of each job, in order of jobs."""
    ordered = sorted(demands, key=lambda demand: demand.job)
    shares = at_shares(ordered, io_bytes_per_s)
    have = together([_standing(demand) for demand in ordered], io_bytes_per_s)
    return [
        JobDelta(demand=demand, have=point, want=wanted.points[demand.job], share=share)
        for demand, point, share in zip(ordered, have, shares, strict=True)
    ]


def _standing(demand: JobDemand) -> OperatingPoint:
    """Point that it has by its present curve; a job that starts has its share.

    Where the curve does not know its number of workers, `now` itself tells the rate.
    """
    if demand.now is None:
        return share_or_nothing(demand)
    measured = (point for point in demand.points if same(demand.now, point))
    return next(measured, demand.now)
