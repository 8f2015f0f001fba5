"""Starts of a loader's workers: the time they take, and how many are worth it."""

from __future__ import annotations

from ..workers.room import MAX_WORKERS

_LOSES = 2.0  # times the seconds of fetching, for workers: a pass lost by them
_LOST_S = 2.0  # in such passes, one after the other
_LOST_PASSES = 3  # at least, as one or two may have met a busy machine
_SHARE = 0.02  # of a pass, that starting workers which may never work can cost


class Starts:
    """Seconds in which workers started; `lasting` ones (persistent) start once for all passes."""

    def __init__(self, lasting: bool) -> None:
        self.lasting = lasting
        self.total_s = 0.0
        self.latest_s = 0.0
        self._first_s = 0.0  # of the first pass: it has what is done once, too
        self._passes = 0
        self.pass_s = 0.0  # what the last whole pass took
        self._each_s = 0.0  # what starting one worker took, last time
        self._started_s = 0.0  # what the present pass spent on it
        self._lost_s, self._lost_passes = 0.0, 0  # by workers, the latest ones in a row

    def begin(self, looked_s: float) -> None:
        """A pass begins; so long the probe looked at its loader before."""
        self._passes += 1
        self._started_s = 0.0
        self._once(looked_s)

    def add(self, seconds: float, workers: int) -> None:
        """Starting so many workers took so long."""
        self._once(seconds)
        self.total_s += seconds
        self._started_s += seconds
        self.latest_s = seconds
        if workers:
            self._each_s = seconds / workers

    def ended(self, wait_s: float, step_s: float, fetch_s: float, *, whole: bool) -> None:
        """A pass ended that waited and computed so long, beside all seconds of its fetches."""
        self.pass_s = wait_s + step_s
        if self._started_s and whole:
            spent_s = self._started_s + wait_s
            lost = spent_s > _LOSES * fetch_s
            self._lost_s = self._lost_s + spent_s - fetch_s if lost else 0.0
            self._lost_passes = self._lost_passes + 1 if lost else 0

    def loses(self) -> bool:
        """True if passes spend longer on workers, from their start on, than on fetching without."""
        often = self._lost_passes >= _LOST_PASSES
        return often and self._lost_s > _LOST_S and not self.lasting

    def _once(self, seconds: float) -> None:
        if self._passes <= 1:
            self._first_s += seconds

    def first_s(self) -> float | None:
        """Seconds of the first pass's start; None where later passes start no workers."""
        return None if self.lasting else self._first_s

    def each_s(self) -> float:
        """Seconds that each pass spends on starting one worker."""
        return 0.0 if self.lasting else self._each_s

    def worth(self) -> int:
        """As many workers as take a small share of a pass to start, where each pass starts them."""
        if self.lasting or not (self._each_s and self.pass_s):
            return MAX_WORKERS
        return int(_SHARE * self.pass_s / self._each_s)
