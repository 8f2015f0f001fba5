"""Steps of single optimisers, and of those that came one after the other."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

_FEWEST = 16  # steps of a training; inner loops of one that goes on around them are shorter


class Stretch(NamedTuple):
    """Steps between two times; `wall_s`: from the first to the latest, validations left out."""

    steps: int
    began: float
    latest: float
    wall_s: float

    def apart(self, other: Stretch) -> bool:
        """True if one was over when the other one began."""
        return self.latest < other.began or other.latest < self.began

    def followed_by(self, other: Stretch) -> Stretch:
        """Both; what lay between counts for at most one of the later one's steps."""
        between_s = min(other.began - self.latest, other.wall_s / (other.steps - 1))
        wall_s = self.wall_s + between_s + other.wall_s
        return Stretch(self.steps + other.steps, self.began, other.latest, wall_s)


class OptimiserSteps:
    """Steps of one optimiser, when its first and its latest one were done, and of which model."""

    __slots__ = ("aside_s", "began", "first", "latest", "model", "of", "steps")

    def __init__(self, optimiser: Any, model: int, now: float, aside_s: float) -> None:
        self.of, self.model, self.aside_s = weakref.ref(optimiser), model, aside_s
        self.steps, self.began, self.first, self.latest = 1, now, now, now

    def stretch(self) -> Stretch:
        """Its steps so far."""
        return Stretch(self.steps, self.began, self.latest, self.latest - self.first)


def busiest(*stretches: Stretch | None) -> Stretch | None:
    """The one with the most steps; None: there are none."""
    return max(filter(None, stretches), key=lambda stretch: stretch.steps, default=None)


def in_turn(*stretches: Stretch | None) -> Stretch | None:
    """The busiest one, with those before and after it; what overlaps a busier one is left out."""
    chosen: list[Stretch] = []
    for stretch in sorted(filter(None, stretches), key=lambda stretch: stretch.steps, reverse=True):
        if not chosen or (stretch.steps >= _FEWEST and all(map(stretch.apart, chosen))):
            chosen.append(stretch)
    if not chosen:
        return None
    first, *later = sorted(chosen, key=lambda stretch: stretch.began)
    for stretch in later:
        first = first.followed_by(stretch)
    return first
