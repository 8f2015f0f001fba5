"""What the advisor counts of itself: plain numbers, because slurmctld waits while they are made.

One thread counts, another reads: each number is replaced whole, and none is ever taken back.
"""

from bisect import bisect_left
from collections import Counter
from time import monotonic

BOUNDS_S = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005),
    *(0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
)


class LatencyHistogram:
    """A histogram of seconds: one count more than bounds, the last for what is above them all."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        """One more answer."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


class AdvisorCounters:
    """Answers by kind, decisions by action and outcome, and what is known of slurmctld's breaker.

    The breaker is Lua's, inside slurmctld: it tells how often it rested so far with each request
    (`rests`), so a rest is seen when it is over. While one is likely (an answer of ours came too
    late, and no submission came since) `resting` says so.
    """

    def __init__(self) -> None:
        self.answers: dict[str, LatencyHistogram] = {}
        self.decisions: Counter[tuple[str, str]] = Counter()
        self.rests = 0
        self._rests_told: int | None = None
        self._rests_until_s = 0.0

    def answered(self, kind: str, seconds: float, deadline_s: float, breaker_s: float) -> None:
        """One line was answered."""
        latency = self.answers.get(kind)
        if latency is None:
            latency = self.answers[kind] = LatencyHistogram()
        latency.add(seconds)
        if kind == "submit":
            self._rests_until_s = monotonic() + breaker_s if seconds > deadline_s else 0.0

    def decided(self, action: str, outcome: str) -> None:
        """One submission was decided on."""
        self.decisions[action, outcome] += 1

    def told(self, rests: int) -> None:
        """What slurmctld says of its breaker; its count begins anew when slurmctld does."""
        known, self._rests_told = self._rests_told, rests
        if known is not None:
            self.rests += rests - known if rests >= known else rests

    @property
    def resting(self) -> bool:
        """Whether slurmctld probably asks nobody just now."""
        return monotonic() < self._rests_until_s
