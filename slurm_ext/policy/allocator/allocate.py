"""Divide a node's CPU units and storage bandwidth among the jobs on it. Pure.

Maximises the sum over jobs of weight x rate / rate at the proportional share (knapsack_dp.py),
where
- the sum of units is at most the node's,
- no job is below KEPT of the rate of its proportional share with the script's own workers, unless
  it agreed (a measurement resolves no less, and a modelled curve never becomes quite flat),
- no job has less than `least_units`: no accelerator is without cores.
A job whose curve is not known, or cannot be used, keeps exactly its share.

Bandwidth is not assigned: the storage itself shares it, so what one job reads more the others may
lack. Its fair level (max_min_share.py) follows from the demands, and the demands from the units:
the division is repeated with each new level, and the best one that keeps the promises is taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from slurm_ext.policy.allocator.job_demands import (
    JobDemand,
    allowed,
    check,
    promised_point,
    unusable,
)
from slurm_ext.policy.allocator.knapsack_dp import JobOptions, divide, enough
from slurm_ext.policy.allocator.max_min_share import fair_bandwidth, limited
from slurm_ext.policy.allocator.operating_points import OperatingPoint

ROUNDS = 3  # of division and fair bandwidth
ROUNDING = 1e-9
KEPT = 0.995  # of the rate at a share is its rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Operating point of each job."""

    points: Mapping[str, OperatingPoint]  # by job
    reason: Mapping[str, str]  # by job
    value: float  # sum of weight x rate / rate at the proportional share
    spare_units: int  # that would speed up nobody


def allocate(
    demands: Sequence[JobDemand], units: int, *, io_bytes_per_s: float | None = None
) -> Allocation:
    """Return the best division of `units` among the jobs, in whatever order they come.

    `io_bytes_per_s`: bandwidth of the node's storage; None: not limited. InputError where the
    shares do not fit the node or a demand cannot be meant: then nothing should be changed.
    """
    check(demands, units, io_bytes_per_s)
    ordered = sorted(demands, key=lambda demand: demand.job)
    shares = at_shares(ordered, io_bytes_per_s)
    best, most = shares, total(ordered, shares, shares)
    for division in _divisions(ordered, units, io_bytes_per_s):
        shared = together(division, io_bytes_per_s)
        gained = total(ordered, shared, shares)
        if gained > most - ROUNDING and _kept(ordered, shared, shares):
            best, most = shared, gained
    return allocation(ordered, best, shares, units)


def at_shares(
    demands: Sequence[JobDemand], io_bytes_per_s: float | None = None
) -> list[OperatingPoint]:
    """Return each job's point at its proportional share, with the storage shared."""
    return together([share_or_nothing(demand) for demand in demands], io_bytes_per_s)


def together(
    division: Sequence[OperatingPoint], io_bytes_per_s: float | None
) -> list[OperatingPoint]:
    """The offers as they are when all read from one storage."""
    level = fair_bandwidth(division, io_bytes_per_s)
    return [limited(point, level) for point in division]


def total(
    demands: Sequence[JobDemand], points: Sequence[OperatingPoint], shares: Sequence[OperatingPoint]
) -> float:
    """The objective."""
    return sum(worth(*row) for row in zip(demands, points, shares, strict=True))


def worth(demand: JobDemand, point: OperatingPoint, share: OperatingPoint) -> float:
    """One job's part of the objective; a job of which nothing is known counts as at its share."""
    if not share.samples_per_s:
        return demand.weight
    return demand.weight * point.samples_per_s / share.samples_per_s


def allocation(
    demands: Sequence[JobDemand],
    points: Sequence[OperatingPoint],
    shares: Sequence[OperatingPoint],
    units: int,
) -> Allocation:
    """The offers with their value and reasons."""
    rows = list(zip(demands, points, shares, strict=True))
    return Allocation(
        points={demand.job: point for demand, point, _ in rows},
        reason={demand.job: _reason(demand, point, share) for demand, point, share in rows},
        value=total(demands, points, shares),
        spare_units=units - sum(point.units for point in points),
    )


def share_or_nothing(demand: JobDemand) -> OperatingPoint:
    """Point at its share, alone on the storage; rate 0 if that is not known."""
    point = None if unusable(demand) else promised_point(demand)
    return point or OperatingPoint(units=demand.share_units, workers=None, samples_per_s=0.0)


def _divisions(
    demands: Sequence[JobDemand], units: int, io_bytes_per_s: float | None
) -> Iterator[list[OperatingPoint]]:
    """Divisions worth a look; the last one reads no more than the shares would."""
    shares = [share_or_nothing(demand) for demand in demands]
    first = level = fair_bandwidth(shares, io_bytes_per_s)
    for _ in range(1 if io_bytes_per_s is None else ROUNDS):
        division = _division(demands, shares, units, level, frugal=False)
        yield division
        level = fair_bandwidth(division, io_bytes_per_s)
    if io_bytes_per_s is not None:
        yield _division(demands, shares, units, first, frugal=True)


def _division(
    demands: Sequence[JobDemand],
    shares: Sequence[OperatingPoint],
    units: int,
    level: float,
    *,
    frugal: bool,
) -> list[OperatingPoint]:
    pairs = zip(demands, shares, strict=True)
    return divide([_choice(demand, share, level, frugal) for demand, share in pairs], units)


def _choice(demand: JobDemand, share: OperatingPoint, level: float, frugal: bool) -> JobOptions:
    floor = limited(share, level).samples_per_s
    most_io = share.io_bytes_per_s if frugal else inf
    options = allowed(demand, KEPT * floor, level, most_io) if floor else [share]
    rates = [limited(point, level).samples_per_s for point in options]
    return JobOptions(
        options=tuple(options),
        level=level,
        enough_samples_per_s=enough(rates),
        share_samples_per_s=floor or 1.0,
        share_units=demand.share_units,
        now=demand.now,
        weight=demand.weight,
    )


def _kept(
    demands: Sequence[JobDemand], points: Sequence[OperatingPoint], shares: Sequence[OperatingPoint]
) -> bool:
    """True if no job is below the rate of its share without having agreed."""
    return all(
        demand.agreed or point.samples_per_s >= KEPT * share.samples_per_s - ROUNDING
        for demand, point, share in zip(demands, points, shares, strict=True)
    )


def _reason(demand: JobDemand, point: OperatingPoint, share: OperatingPoint) -> str:
    """One clause on what the job has against its share."""
    why = unusable(demand)
    if why is not None:
        return f"keeps its share: {why}"
    more = point.units - demand.share_units
    gain = point.samples_per_s / share.samples_per_s - 1
    if more == 0:
        return "has its share"
    if more > 0:
        return f"{_units(more)} beyond its share: {gain:+.0%}"
    if gain < KEPT - 1:
        return f"does without {_units(-more)} of its share, as agreed: {gain:+.0%}"
    return f"has no use for {_units(-more)} of its share"


def _units(count: int) -> str:
    return "1 unit" if count == 1 else f"{count} units"
