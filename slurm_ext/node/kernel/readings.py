"""Totals from a counter's readings: it may wrap, vanish, go backwards or be multiplexed. Pure."""

from __future__ import annotations

LEAST_NS = 1e6  # counted, for a step's rate
LIKELY = 0.5  # of a counter's range: a larger step between two samples was no step


def gained(before: float, now: float, wraps_at: float | None = None) -> float | None:
    """Gain of a counter between two readings; None if it cannot be known.

    `wraps_at` is the range after which it begins at zero again. Without one, a counter that goes
    backwards was reset: its value before that is unknown.
    """
    if now >= before:
        return now - before
    if wraps_at is None or not before <= wraps_at:
        return None
    step = now + wraps_at - before
    return step if step <= wraps_at * LIKELY else None


def scaled(value: float, enabled: float, running: float) -> float | None:
    """A multiplexed counter's estimate for all its time: value * enabled / running.

    That is what perf(1) does (perf_event_open(2), time_running). None if it had a task to count
    and never got a place, or if the kernel's figures contradict each other.
    """
    if value < 0 or enabled < 0 or not 0 <= running <= enabled:
        return None
    if running == 0:
        return 0.0 if enabled == 0 and value == 0 else None
    return value * (enabled / running)


class MultiplexedCount:
    """A count of all the time that there was something to count, from the part that was counted.

    Each step's rate stands for that step alone, so that a change shows. Never goes down.
    """

    def __init__(self) -> None:
        self.total: float | None = None  # None: never counted
        self._last = (0.0, 0.0, 0.0)

    def see(self, value: float, counted: float, whole: float) -> None:
        """Take one reading: the value, nanoseconds counted, and those there were to count.

        A step with too little counted waits for the next one; a reading that fell (a counter of a
        sum is gone) is where counting goes on from.
        """
        steps = [now - then for now, then in zip((value, counted, whole), self._last)]
        if min(steps) < 0:
            self._last = (value, counted, whole)
        elif steps[1] > 0 and (self.total is None or steps[1] >= LEAST_NS):
            self.total = (self.total or 0.0) + steps[0] * max(1.0, steps[2] / steps[1])
            self._last = (value, counted, whole)


class CounterGain:
    """Adds up what a counter gained; steps that cannot be known are left out and counted."""

    def __init__(self, wraps_at: float | None = None, total: float | None = None) -> None:
        self.wraps_at = wraps_at
        self.total = total  # None: no two readings yet
        self.unknown = 0
        self._last: float | None = None

    def see(self, now: float | None) -> None:
        """Take one reading; None if the counter could not be read this time."""
        if now is None:
            return
        step = 0.0 if self._last is None else gained(self._last, now, self.wraps_at)
        self._last = now
        if step is None:
            self.unknown += 1
        else:
            self.total = (self.total or 0.0) + step

    def add(self, more: float) -> None:
        """Take a gain that is known without the counter."""
        self.total = (self.total or 0.0) + more
