"""Estimated start of a waiting job, if those before it go first and no job passes. Pure.

Units (GPUs or CPUs) of a partition are one pool: what does not fit for its place on nodes, or for
memory, starts later; what Slurm backfills starts earlier.
"""

import heapq
from collections.abc import Iterable

Units = tuple[int, float]  # how many, and for how many seconds from now on, or from their start


def starts_in_s(
    capacity: int, running: Iterable[Units], ahead: Iterable[Units], units: int
) -> float | None:
    """Seconds from now; None: there is not so much at all.

    `running` are busy for so many s still; `ahead` start in this order, as soon as they fit.
    """
    if units > capacity:
        return None
    ends = [(max(0.0, left_s), count) for count, left_s in running]
    heapq.heapify(ends)
    free = capacity - sum(count for _, count in ends)
    now_s = 0.0
    for count, lasts_s in ahead:
        if count > capacity:
            continue  # it waits for nodes that are not there, and Slurm goes on without it
        free, now_s = _until(count, free, now_s, ends)
        free -= count
        heapq.heappush(ends, (now_s + lasts_s, count))
    return _until(units, free, now_s, ends)[1]


def _until(
    wanted: int, free: int, now_s: float, ends: list[tuple[float, int]]
) -> tuple[int, float]:
    """Time at which so many are free, and how many are free then."""
    while free < wanted and ends:
        end_s, count = heapq.heappop(ends)
        now_s = max(now_s, end_s)
        free += count
    return free, now_s
