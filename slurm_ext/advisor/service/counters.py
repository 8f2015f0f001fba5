"""Counters of the advisor itself: plain numbers, because slurmctld waits while they are counted.

One thread counts, another reads: each number is replaced whole and never gets smaller.
"""

from bisect import bisect_left
from collections import Counter
from time import monotonic

BOUNDS_S = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    1.0,
)


class LatencyHistogram:
    """A histogram of seconds: one count for each bound, and one for what is above them all."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0


class AdvisorCounters:
    """Answers by kind, decisions by action and outcome, and the state of slurmctld's breaker.

    The breaker is Lua's, inside slurmctld: each request says how often it has rested so far
    (`rests`), so a rest is counted when it is over. `resting` is true while a rest is likely: an
    answer came too late, and no submission came since.
    """

    def __init__(self) -> None:
        self.answers: dict[str, LatencyHistogram] = {}
        self.decisions: Counter[tuple[str, str]] = Counter()
        self.rests = 0
        self.unreadable_runs = 0  # of the history, passed over
        self._rests_reported: int | None = None
        self._rests_until_s = 0.0

    def answered(self, kind: str, seconds: float, deadline_s: float, breaker_s: float) -> None:
        """Count one answered line; after a late one slurmctld rests for `breaker_s`."""
        latency = self.answers.get(kind)
        if latency is None:
            latency = self.answers[kind] = LatencyHistogram()
        latency.counts[bisect_left(BOUNDS_S, seconds)] += 1
        latency.total_s += seconds
        if kind == "submit":
            self._rests_until_s = monotonic() + breaker_s if seconds > deadline_s else 0.0

    def breaker_rests(self, rests: int) -> None:
        """Take slurmctld's own count of rests, which starts at zero whenever slurmctld starts."""
        before, self._rests_reported = self._rests_reported, rests
        if before is not None:
            self.rests += rests - before if rests >= before else rests

    @property
    def resting(self) -> bool:
        """True while slurmctld probably leaves the advisor alone after a late answer."""
        return monotonic() < self._rests_until_s
