"""The plan of a profile run: which windows, how long each, in which order. Pure.

A window's first steps do not count: while cached batches were used, the workers filled their queue,
and a normal window that follows would look too fast. So each window is at least three times as long
as what is dropped of it (methods of Stash and DS-Analyzer, in one run instead of several).
"""

from __future__ import annotations

import random
from typing import Iterator, NamedTuple, Sequence

NORMAL, CACHED, UNSYNCED, BOTH = "N", "C", "S", "B"
TRACED = "T"  # cached batches under torch's profiler
REAL_BATCHES, SYNCED = (NORMAL, UNSYNCED), (NORMAL, CACHED, TRACED)
LEAST_KEPT = 8  # steps of a window that count
_EXTRA = 2  # steps beside the queue: frameworks fetch a batch or two ahead
_KEPT_TIMES = 2  # what is dropped: the window is three times that


class WindowPlan(NamedTuple):
    """Windows of one run: a round holds each kind once, in an order of its own."""

    kinds: tuple[str, ...]
    drop: int  # first steps of a window with real batches
    kept: int  # steps that count
    rounds: int  # at most
    seed: int

    def dropped(self, kind: str) -> int:
        """Steps at a window's start that do not count: no queue refills under cached batches."""
        return self.drop if kind in REAL_BATCHES else _EXTRA

    def length(self, kind: str) -> int:
        """Steps of a window in all."""
        return self.dropped(kind) + (LEAST_KEPT if kind == TRACED else self.kept)

    def round_steps(self) -> int:
        """Steps of a round."""
        return sum(self.length(kind) for kind in self.kinds)

    def order(self) -> Iterator[tuple[str, bool]]:
        """Each window's kind, and True for a round's last one; every rank draws the same."""
        for number in range(self.rounds):
            kinds = list(self.kinds)
            random.Random(f"{self.seed} {number}").shuffle(kinds)  # noqa: S311 (an order, no secret)
            for place, kind in enumerate(kinds, 1):
                yield kind, place == len(kinds)


def dropped_steps(workers: int, prefetch: int) -> int:
    """Steps until a queue that was filled meanwhile is as full as the loader keeps it."""
    return workers * prefetch + _EXTRA


def make_plan(
    kinds: Sequence[str], drop: int, step_s: float, *, steps: int, seconds: float, seed: int
) -> WindowPlan | None:
    """As many whole rounds as fit into the steps and seconds left; None: not even one does."""
    room = min(steps, int(seconds / step_s)) if step_s > 0 else steps
    wanted = WindowPlan(tuple(kinds), drop, max(LEAST_KEPT, _KEPT_TIMES * drop), 1, seed)
    least = wanted._replace(kept=LEAST_KEPT)
    if least.round_steps() > room:
        return None
    kept = min(wanted.kept, LEAST_KEPT + (room - least.round_steps()) // len(kinds))
    fits = wanted._replace(kept=kept)
    return fits._replace(rounds=max(1, room // fits.round_steps()))
