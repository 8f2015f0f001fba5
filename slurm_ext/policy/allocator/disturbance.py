"""Signs that a lender is worse off than before it lent: its own waiting, and its rate. Pure."""

from dataclasses import dataclass
from math import inf

MORE_QUEUED = 0.05  # seconds in a second that all its threads together may wait for cores more,
QUEUED_TIMES = 1.5  # and as a multiple of before
ROUNDING = 1.5  # batches by which a window may be off
NEWEST = 0.3  # weight of the newest window in what is usual


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopWindow:
    """One measured window of a job's own work."""

    queued_cores: float  # seconds in a second that its threads waited for cores
    samples_per_s: float | None = None  # None: nothing was delivered, or nobody counts
    batches: int = 0


def usual(before: LoopWindow | None, window: LoopWindow) -> LoopWindow:
    """Return the moving average of windows, for jobs that lend nothing at the time."""
    if before is None:
        return window
    queued = before.queued_cores + NEWEST * (window.queued_cores - before.queued_cores)
    rate = window.samples_per_s
    if rate is not None and before.samples_per_s is not None:
        rate = before.samples_per_s + NEWEST * (rate - before.samples_per_s)
    return LoopWindow(queued_cores=queued, samples_per_s=rate or before.samples_per_s)


def disturbance(before: LoopWindow, window: LoopWindow, floor: float) -> str | None:
    """Return why a lender gets its cores back, in a clause; None: nothing has changed for it.

    `floor`: the part of its earlier rate below which it never falls. The rate tells of memory
    bandwidth and caches, which no priority divides.
    """
    if window.queued_cores > before.queued_cores * QUEUED_TIMES + MORE_QUEUED:
        return "its own processes wait for cores"
    if before.samples_per_s is None or window.samples_per_s is None:
        return None
    most = window.samples_per_s * (1 + (ROUNDING / window.batches if window.batches else inf))
    return "its rate fell" if most < floor * before.samples_per_s else None
