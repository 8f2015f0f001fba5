"""Demands of the jobs that share a node, and checks that its units can be divided. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from slurm_ext.core.errors import InputError
from slurm_ext.policy.allocator.max_min_share import limited
from slurm_ext.policy.allocator.operating_points import OperatingPoint, fault, within

CREDIBLE = 4.0  # times as fast as in proportion to units: measured curves have steps, not wonders


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDemand:
    """One running job."""

    job: str
    points: tuple[OperatingPoint, ...]  # ascending units; empty: unknown, it keeps its share
    share_units: int  # its proportional share: what Slurm gave it
    now: OperatingPoint | None  # at its measured or predicted rate; None: it has just started
    remaining_s: float | None = None  # None: unknown
    news: bool = False  # its curve has become known since something was changed for it
    agreed: bool = False  # it may fall below the rate of its share
    least_units: int = 1  # that its accelerators need; never more than its share is promised
    weight: float = 1.0  # of its gains against those of others
    baseline: OperatingPoint | None = None  # its share with the script's workers; None: the best


def check(demands: Sequence[JobDemand], units: int, io_bytes_per_s: float | None) -> None:
    """Raise InputError where no division of the node could give every job its share."""
    if units < 1:
        raise InputError("node", f"{units} units to divide: at least 1 is needed")
    if io_bytes_per_s is not None and not (isfinite(io_bytes_per_s) and io_bytes_per_s > 0):
        raise InputError("node", f"storage of {io_bytes_per_s} bytes/s: expected more than 0")
    jobs = [demand.job for demand in demands]
    for job in jobs:
        if jobs.count(job) > 1:
            raise InputError(f"job {job}", "named twice among the jobs of one node")
    for demand in demands:
        _check_one(demand, units)
    shares = sum(demand.share_units for demand in demands)
    if shares > units:
        raise InputError("node", f"shares of {shares} units are promised, it has {units}")


def _check_one(demand: JobDemand, units: int) -> None:
    source = f"job {demand.job}"
    if not 1 <= demand.share_units <= units:
        raise InputError(source, f"its share of {demand.share_units} units is not in 1 to {units}")
    if demand.least_units < 0:
        raise InputError(source, f"least_units = {demand.least_units}: expected 0 or more")
    if not (isfinite(demand.weight) and demand.weight > 0):
        raise InputError(source, f"weight = {demand.weight}: expected a positive number")


def unusable(demand: JobDemand) -> str | None:
    """Reason why this job keeps its share; None if its curve can be used."""
    why = fault(demand.points)
    if why is not None:
        return why
    share = share_point(demand)
    if share is None:
        return f"none of its offers is within its share of {demand.share_units} units"
    if any(point.samples_per_s > _credible(share, point) for point in demand.points):
        return "its offers claim more from further units than any training gains"
    return None


def share_point(demand: JobDemand) -> OperatingPoint | None:
    """Point at its proportional share, with enough units for its accelerators."""
    return within(_supplied(demand), demand.share_units)


def promised_point(demand: JobDemand) -> OperatingPoint | None:
    """Point that the job never falls below: its share with the script's own workers.

    Workers that were added since are not the user's: what they bring may go to other jobs again.
    """
    share, baseline = share_point(demand), demand.baseline
    if share is None or baseline is None or not 0 < baseline.samples_per_s < share.samples_per_s:
        return share
    return baseline


def allowed(
    demand: JobDemand, floor_samples_per_s: float, level: float, most_io_bytes_per_s: float
) -> list[OperatingPoint]:
    """Offers that keep the promises: accelerators supplied, not below the rate of its share.

    `level`: bandwidth that it can have; `most_io_bytes_per_s`: that it may ask for.
    """
    floor = 0.0 if demand.agreed else floor_samples_per_s
    return [
        point
        for point in _supplied(demand)
        if limited(point, level).samples_per_s >= floor
        and point.io_bytes_per_s <= most_io_bytes_per_s
    ]


def _credible(share: OperatingPoint, point: OperatingPoint) -> float:
    """The most that so many units can bring; units below the share bring no more than it does."""
    return CREDIBLE * share.samples_per_s * max(1.0, point.units / share.units)


def _supplied(demand: JobDemand) -> list[OperatingPoint]:
    least = min(demand.least_units, demand.share_units)
    return [point for point in demand.points if point.units >= least]
