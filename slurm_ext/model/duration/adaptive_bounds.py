"""Moves the bounds of durations so that each holds as often as it says, by earlier outcomes.

A quantile tracker (adaptive conformal inference: Gibbs and Candes, 2021), one for each side and for
each bin of how well the narrowest key is known (Mondrian). A job that still runs counts as
well: once it is older than a bound it has outlived that bound. Ends alone would come from short
jobs first, and bounds that were too low would show only weeks later.
"""

import heapq
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import exp

import numpy as np

from slurm_ext.core.stats import fair_weights
from slurm_ext.model.arrays import Array, weighted_quantile
from slurm_ext.model.duration.model import KNOWN_FROM, MISSED

STEP = 0.02  # of log time: a miss moves its bound out by 0.95 of it, a hit back by 0.05
SPARE = 1000
MOST_LOG = 40.0  # beyond every clock, below every overflow


def _nothing() -> list[float]:
    return [0.0] * (len(KNOWN_FROM) + 1)


@dataclass(slots=True)
class AdaptiveBounds:
    """`low` and `high`: shift outwards by bin, in logs. Times in s, and they never run back."""

    low: list[float] = field(default_factory=_nothing)
    high: list[float] = field(default_factory=_nothing)
    step: float = STEP
    _open: dict[Hashable, tuple[int, set[str]]] = field(default_factory=dict)
    _due: list[tuple[float, int, Hashable, str]] = field(default_factory=list)
    _count: int = 0

    def watch(
        self, job: Hashable, now_s: float, level: int, low: float, high: float
    ) -> tuple[float, float]:
        """Return the moved bounds of a job submitted now, and watch it. They never cross."""
        self.advance(now_s)
        low, high = low - self.low[level], high + self.high[level]
        middle = (low + high) / 2
        bounds = {"low": min(low, middle), "high": max(high, middle)}
        self._open[job] = level, set(bounds)
        for side, bound in bounds.items():
            self._count += 1  # breaks ties: jobs need not compare
            due_s = now_s + exp(min(bound, MOST_LOG))
            heapq.heappush(self._due, (due_s, self._count, job, side))
        return bounds["low"], bounds["high"]

    def advance(self, now_s: float) -> None:
        """Count every bound before `now_s` as outlived by the jobs that still run."""
        while self._due and self._due[0][0] < now_s:
            _, _, job, side = heapq.heappop(self._due)
            self._learn(job, side, missed=side == "high")

    def ended(self, job: Hashable, end_s: float) -> None:
        """Count the bounds that the job has not outlived as above it. Ignores jobs not watched."""
        self.advance(end_s)
        for side in ("low", "high"):
            self._learn(job, side, missed=side == "low")
        self.forget(job)

    def forget(self, job: Hashable) -> None:
        """Stop watching a job whose end is unknown."""
        self._open.pop(job, None)
        if len(self._due) > SPARE + 4 * len(self._open):  # most of these jobs ended long before
            self._due = [due for due in self._due if due[2] in self._open]
            heapq.heapify(self._due)

    def start(
        self,
        levels: Sequence[int],
        below: Array,
        above: Array,
        owners: Sequence[str] | None = None,
    ) -> None:
        """Set the shifts from held-out jobs: how far each fell outside (logs, negative inside).

        `owners`: the jobs' users, of whom nobody has more than a share of a bin; None: all count
        alike.
        """
        for at in range(len(self.low)):
            ours = np.asarray(levels) == at
            if ours.sum() >= 1 / MISSED:
                whose = np.asarray(owners or [""] * len(ours))[ours].tolist()
                weights = np.array(fair_weights(whose))
                self.low[at] = weighted_quantile(below[ours], weights, 1 - MISSED)
                self.high[at] = weighted_quantile(above[ours], weights, 1 - MISSED)

    def update(self, level: int, below: float, above: float) -> None:
        """Learn from an ended job that was not watched, by how far it fell outside (logs)."""
        for moves, outside in ((self.low, below), (self.high, above)):
            moves[level] += self.step * ((outside > moves[level]) - MISSED)

    def copy(self) -> "AdaptiveBounds":
        """Copy the shifts without the watched jobs."""
        return AdaptiveBounds([*self.low], [*self.high], self.step)

    def _learn(self, job: Hashable, side: str, *, missed: bool) -> None:
        level, sides = self._open.get(job, (0, set()))
        if side in sides:
            sides.remove(side)
            moves = self.low if side == "low" else self.high
            moves[level] += self.step * (missed - MISSED)
