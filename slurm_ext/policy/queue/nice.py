"""From a wanted order to `nice`: as few changes as put waiting jobs in it, within bounds. Pure.

Slurm starts the job with the higher priority first, of equals the lower job id, and takes a job's
nice from its priority. A job gives way only as far as it must to be behind those that go before it,
and at most by `most`: so no job that takes no part is ever passed by one that does, and a job whose
own priority is more than `most` above another's stays before it. Where priorities are too near to 1
to go down, all may be lifted together by up to -`least`.

A nice is left as it is while the order holds: it changes only where the order would be another, or
where a job gives way by more than a tenth of `most` beyond need.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

MOST_GAP = 10  # points between neighbours, so that a newcomer fits between them


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A waiting job as it stands: its priority has its nice taken off already."""

    job: str
    priority: int
    nice: int
    tie: int  # its id: of equals the lowest goes first

    @property
    def base(self) -> int:
        """Its priority without any nice."""
        return self.priority + self.nice


@dataclass(frozen=True, slots=True, kw_only=True)
class NiceBounds:
    """Bounds of nice: how far a job may give way, and be lifted (least <= 0 < most)."""

    most: int
    least: int = 0


@dataclass(frozen=True, slots=True)
class _Last:
    """The last of those that were placed."""

    priority: int
    tie: int

    def before(self, priority: int, tie: int) -> bool:
        """True if it goes before a job of that priority."""
        return (self.priority, -self.tie) > (priority, -tie)


def nices(order: Sequence[WaitingJob], bounds: NiceBounds) -> dict[str, int]:
    """Return the nice values to change, by job. `order`: the wanted order, first job first."""
    rules = _Rules.of(order, bounds)
    changes: dict[str, int] = {}
    last: _Last | None = None
    for number, job in enumerate(order):
        behind = len(order) - number - 1
        wanted = _place(job, order[number + 1] if behind else None, behind, last, rules)
        if wanted != job.priority:
            changes[job.job] = job.base - wanted
        if last is None or last.before(wanted, job.tie):
            last = _Last(wanted, job.tie)
    return changes


def in_order(order: Sequence[WaitingJob]) -> bool:
    """True if Slurm's priorities already give this order."""
    return all(_Last(a.priority, a.tie).before(b.priority, b.tie) for a, b in pairwise(order))


@dataclass(frozen=True, slots=True)
class _Rules:
    """The bounds, and what follows from them for this queue; all in points."""

    bounds: NiceBounds
    gap: int  # between neighbours
    lift: int  # how far all may go up
    slack: int  # how far beyond need a job may stay behind

    @classmethod
    def of(cls, order: Sequence[WaitingJob], bounds: NiceBounds) -> "_Rules":
        gap = _gap(order, bounds)
        return cls(bounds, gap, _lift(order, bounds, gap), max(gap, bounds.most // 10))


def _place(
    job: WaitingJob, after: WaitingJob | None, behind: int, last: _Last | None, rules: _Rules
) -> int:
    """The priority that it is to have; `after` is the next of `behind` that come after it."""
    floor, highest = max(1, job.base - rules.bounds.most), job.base + rules.lift
    if last is None or last.before(highest, job.tie):
        need = highest
    else:
        # Whoever is next and stands well need not move; all that are behind need a place.
        above = max(1 if after is None else after.priority + 1, behind + 1)
        need = max(last.priority - rules.gap, min(above, last.priority - 1))
    stands = last is None or last.before(job.priority, job.tie)
    leaves_room = job.priority > behind
    allowed = floor <= job.priority <= max(highest, job.base - rules.bounds.least)
    if stands and leaves_room and allowed and need - job.priority <= rules.slack:
        return job.priority
    return max(floor, min(highest, need))


def _gap(order: Sequence[WaitingJob], bounds: NiceBounds) -> int:
    """Less where many jobs have to share little room."""
    lowest = min((job.base for job in order), default=1)
    room = min(bounds.most, lowest - 1 - bounds.least)
    return max(1, min(MOST_GAP, room // max(1, len(order))))


def _lift(order: Sequence[WaitingJob], bounds: NiceBounds, gap: int) -> int:
    """Points by which all have to go up so that the last is not below 1."""
    last: _Last | None = None
    for job in order:
        place = job.base
        if last is not None and not last.before(place, job.tie):
            place = max(last.priority - gap, job.base - bounds.most)
        if last is None or last.before(place, job.tie):
            last = _Last(place, job.tie)
    lowest = 1 if last is None else last.priority
    return min(-bounds.least, max(0, 1 - lowest))


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
