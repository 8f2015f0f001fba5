"""Max-min fair shares of a storage bandwidth that is too small for all. Pure.

Storage that serves its readers in turn divides itself like that: no job gets more than it demands,
and no job that gets less than it demands has less than any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from slurm_ext.policy.allocator.operating_points import OperatingPoint

ROUNDING = 1e-6  # of a bandwidth


def max_min_share(demands: Sequence[float], supply: float) -> float:
    """Bandwidth that each may have at most, in the unit of the demands; inf: there is enough."""
    left = supply
    for served, demand in enumerate(sorted(demands)):
        even = left / (len(demands) - served)
        if demand > even:
            return even
        left -= demand
    return inf


def limited(point: OperatingPoint, most_io_bytes_per_s: float) -> OperatingPoint:
    """The offer as it is with at most so much bandwidth: the rate falls with what is read."""
    if point.io_bytes_per_s <= most_io_bytes_per_s:
        return point
    return replace(
        point,
        samples_per_s=point.samples_per_s * most_io_bytes_per_s / point.io_bytes_per_s,
        io_bytes_per_s=most_io_bytes_per_s,
    )


def fair_bandwidth(points: Sequence[OperatingPoint], supply: float | None) -> float:
    """The level that these offers together leave each other; `supply` None: not limited."""
    if supply is None:
        return inf
    return max_min_share([point.io_bytes_per_s for point in points], supply)


def capped(points: Mapping[str, OperatingPoint], supply: float) -> dict[str, float]:
    """Bandwidth of those who have less than they ask for, by job: nobody else needs a limit.

    `points`: as they are beside each other (`limited` to their level). A job that reads alone is
    never held back.
    """
    demands = {job: point.io_bytes_per_s for job, point in points.items() if point.io_bytes_per_s}
    most = max(demands.values(), default=0.0)
    if len(demands) < 2 or sum(demands.values()) < supply * (1 - ROUNDING):
        return {}
    return {job: demand for job, demand in demands.items() if demand >= most * (1 - ROUNDING)}


SPARE = 0.85  # of its CPUs: a job that uses more would use others' as well


LATENCY_WEIGHT, MAX_LATENCY_WEIGHT = 8.0, 64.0


def proportional(allocated: Mapping[str, int], units: int) -> dict[str, int]:
    """`units` in proportion to what Slurm gave, by job; nobody gets less than that.

    Whole units: the largest remainders are rounded up, equal ones in order of jobs. What was given
    is left as it is where it already fills the node, or more than that.
    """
    total = sum(allocated.values())
    if units <= total or total <= 0:
        return dict(allocated)
    shares = {job: count * units // total for job, count in allocated.items()}
    by_remainder = sorted(allocated, key=lambda job: (-(allocated[job] * units % total), job))
    for job in by_remainder[: units - sum(shares.values())]:
        shares[job] += 1
    return shares


def latency_weight(used: float) -> float:
    """Factor on the CPU weight of a job that uses this part of its CPUs; 1 for a busy one.

    A job that needs less than its share then gets its time slice as soon as it wakes: the less it
    needs, the sooner. It is limited to its share meanwhile, so no other job pays if it wants more.
    """
    return (
        1.0
        if used > SPARE
        else min(
            MAX_LATENCY_WEIGHT, LATENCY_WEIGHT / max(used, LATENCY_WEIGHT / MAX_LATENCY_WEIGHT)
        )
    )
