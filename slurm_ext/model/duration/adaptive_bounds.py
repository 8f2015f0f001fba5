"""Moves the bounds of durations so that each holds as often as it says, by how earlier ones did.

A quantile tracker (adaptive conformal inference: Gibbs and Candes, 2021), one for each side and for
each bin of how well the narrowest key is known (Mondrian). A job that still runs tells as well:
once it is older than a bound it has outlived that bound. Waiting for ends alone would hear of short
jobs first, and of bounds that were too low only weeks later.
"""

import heapq
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import TYPE_CHECKING

import numpy as np

from slurm_ext.model.duration.model import KNOWN_FROM, MISSED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

STEP = 0.02  # of log time: what misses moves its bound by 0.95 of it, what holds back by 0.05
SPARE = 1000
MOST_LOG = 40.0  # beyond every clock, below every overflow


def _nothing() -> list[float]:
    return [0.0] * (len(KNOWN_FROM) + 1)


@dataclass(slots=True)
class AdaptiveBounds:
    """`low` and `high`: how far (logs) each is moved outwards, by bin. Times in s, never back."""

    low: list[float] = field(default_factory=_nothing)
    high: list[float] = field(default_factory=_nothing)
    step: float = STEP
    _open: dict[Hashable, tuple[int, set[str]]] = field(default_factory=dict)
    _due: list[tuple[float, int, Hashable, str]] = field(default_factory=list)
    _told: int = 0

    def watch(
        self, job: Hashable, now_s: float, known: int, low: float, high: float
    ) -> tuple[float, float]:
        """The moved bounds of a job that is submitted now; they never cross. It is watched."""
        self.advance(now_s)
        low, high = low - self.low[known], high + self.high[known]
        middle = (low + high) / 2
        told = {"low": min(low, middle), "high": max(high, middle)}
        self._open[job] = known, set(told)
        for side, bound in told.items():
            self._told += 1  # ties go by order: jobs need not compare
            due_s = now_s + exp(min(bound, MOST_LOG))
            heapq.heappush(self._due, (due_s, self._told, job, side))
        return told["low"], told["high"]

    def advance(self, now_s: float) -> None:
        """Jobs that run still have outlived what was due before now."""
        while self._due and self._due[0][0] < now_s:
            _, _, job, side = heapq.heappop(self._due)
            self._learn(job, side, missed=side == "high")

    def ended(self, job: Hashable, end_s: float) -> None:
        """What it has not outlived by now was above it. A job that was not told is nobody's."""
        self.advance(end_s)
        for side in ("low", "high"):
            self._learn(job, side, missed=side == "low")
        self.forget(job)

    def forget(self, job: Hashable) -> None:
        """Nobody knows when it ended: it teaches nothing more."""
        self._open.pop(job, None)
        if len(self._due) > SPARE + 4 * len(self._open):  # mostly of jobs that ended long before
            self._due = [due for due in self._due if due[2] in self._open]
            heapq.heapify(self._due)

    def start(self, known: Sequence[int], below: "Array", above: "Array") -> None:
        """From jobs that no tree has seen: how far each fell outside (logs, negative inside)."""
        for at in range(len(self.low)):
            ours = np.asarray(known) == at
            if ours.sum() >= 1 / MISSED:
                self.low[at] = float(np.quantile(below[ours], 1 - MISSED))
                self.high[at] = float(np.quantile(above[ours], 1 - MISSED))

    def update(self, known: int, below: float, above: float) -> None:
        """A job ended that nobody was told of; how far outside of the unmoved bounds it fell."""
        for moves, outside in ((self.low, below), (self.high, above)):
            moves[known] += self.step * ((outside > moves[known]) - MISSED)

    def copy(self) -> "AdaptiveBounds":
        """The same, watching nobody."""
        return AdaptiveBounds([*self.low], [*self.high], self.step)

    def _learn(self, job: Hashable, side: str, *, missed: bool) -> None:
        known, sides = self._open.get(job, (0, set()))
        if side in sides:
            sides.remove(side)
            moves = self.low if side == "low" else self.high
            moves[known] += self.step * (missed - MISSED)
