"""Operating points of one job: its best rate for each CPU share. Pure.

A unit of CPU is the caller's grain: a whole core, or a part of one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from slurm_ext.core.records import Prediction
from slurm_ext.policy.loader import worker_counts

AS_GOOD = 0.995  # of the best rate: fewer workers that reach it are preferred


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """A job's rate with so many units, and the workers that reach it."""

    units: int
    workers: int | None  # None: leave its workers as they are
    samples_per_s: float
    io_bytes_per_s: float = 0.0  # what it reads from storage at that rate


def operating_points(
    predict: Callable[[float, int], Prediction],
    units: int,
    *,
    grain_cores: float = 1.0,
    max_workers: int,
    least_workers: int = 0,
    worker_rss_bytes: int | None = None,
    mem_bytes: int | None = None,
    base_bytes: int = 0,
    bytes_per_sample: float = 0.0,
    lent_units: int = 0,
) -> tuple[OperatingPoint, ...]:
    """One offer for each of 1 to `units` units, ascending, with the best workers for it.

    `lent_units`: as many as it may have for a while, when others leave theirs unused. Of workers
    that are as good for an offer's own units, those are taken that make most of these.

    `predict(cores, workers)`. Never more workers than `max_workers`, nor than fit `mem_bytes`
    beside `base_bytes` (the training process itself) at `worker_rss_bytes` each; an unknown size
    or limit limits nothing. Never fewer than `least_workers` (a loader that has workers works with
    at least 1; one that must not change has as many as most). Empty where that does not fit.
    """
    most = workers_that_fit(max_workers, worker_rss_bytes, mem_bytes, base_bytes)
    if most is None or most < least_workers:
        return ()
    counts = [count for count in worker_counts(most) if count >= least_workers]
    lent = [predict(lent_units * grain_cores, w).samples_per_s for w in counts if lent_units]
    return tuple(
        _best(predict, count, count * grain_cores, counts, bytes_per_sample, lent)
        for count in range(1, units + 1)
    )


def workers_that_fit(
    max_workers: int,
    worker_rss_bytes: int | None,
    mem_bytes: int | None,
    base_bytes: int = 0,
) -> int | None:
    """Most workers within the job's memory; None: it is over its memory without any."""
    if mem_bytes is None:
        return max(0, max_workers)
    if base_bytes > mem_bytes:
        return None
    if not worker_rss_bytes or worker_rss_bytes < 0:
        return max(0, max_workers)
    return max(0, min(max_workers, (mem_bytes - base_bytes) // worker_rss_bytes))


def fault(curve: Sequence[OperatingPoint]) -> str | None:
    """Reason in one clause why the points cannot be used; None if they can."""
    if not curve:
        return "nothing is known of its curve yet"
    counts = [point.units for point in curve]
    if counts[0] < 1 or any(b <= a for a, b in pairwise(counts)):
        return "its offers are not in ascending order of units from 1 on"
    if not all(isfinite(point.samples_per_s) and point.samples_per_s > 0 for point in curve):
        return "its offers hold a rate that is not a positive number"
    if not all(isfinite(point.io_bytes_per_s) and point.io_bytes_per_s >= 0 for point in curve):
        return "its offers hold a demand of storage that is not a number from 0 on"
    if any(point.workers is not None and point.workers < 0 for point in curve):
        return "its offers hold a negative number of workers"
    return None


def within(curve: Sequence[OperatingPoint], units: int) -> OperatingPoint | None:
    """The fastest offer of at most `units` units, the smallest of equals."""
    fitting = [point for point in curve if point.units <= units]
    return max(fitting, key=lambda point: (point.samples_per_s, -point.units)) if fitting else None


def _best(
    predict: Callable[[float, int], Prediction],
    units: int,
    cores: float,
    counts: Sequence[int],
    bytes_per_sample: float,
    lent: Sequence[float],
) -> OperatingPoint:
    rates = [predict(cores, count).samples_per_s for count in counts]
    enough = AS_GOOD * max(rates)
    good = [n for n, rate in enumerate(rates) if not rate < enough]
    most = AS_GOOD * max((lent[n] for n in good), default=0.0) if lent else 0.0
    chosen = next(n for n in good if not lent or not lent[n] < most)
    workers, rate = counts[chosen], rates[chosen]
    return OperatingPoint(
        units=units,
        workers=workers,
        samples_per_s=rate,
        io_bytes_per_s=rate * bytes_per_sample,
    )
