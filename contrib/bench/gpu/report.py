"""Results of one row: a value for each figure and repeat, facts, and what was absent and why."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from statistics import median
from typing import Any

LEVEL = 0.9  # of the intervals
DRAWS = 1000


class AbsentError(Exception):
    """This machine has not what a row needs; the message, a clause, says what."""


class CutError(Exception):
    """The row's time is over: what it has so far is kept."""


class Report:
    """Values of one row; each figure is the median of its repeats."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}
        self._units: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        self.facts: dict[str, Any] = {}

    def add(self, name: str, value: float | None, unit: str = "") -> None:
        """One repeat of a figure; None, or no number, was not measured."""
        if value is not None and isfinite(value):
            self._values.setdefault(name, []).append(float(value))
            self._units[name] = unit

    def lacks(self, part: str, why: str) -> None:
        """Name a part that is not measured, with the reason."""
        self.absent[part] = why

    def figures(self) -> dict[str, dict[str, Any]]:
        """Every figure with its interval, by name."""
        return {name: figure(values, self._units[name]) for name, values in self._values.items()}


def figure(values: Sequence[float], unit: str = "") -> dict[str, Any]:
    """The median of some repeats with its interval; one repeat has none."""
    low, high = interval(values) if len(values) > 1 else (None, None)
    return {"value": median(values), "low": low, "high": high, "n": len(values), "unit": unit}


def interval(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """The median's interval by a percentile bootstrap over repeats (Efron, 1979)."""
    rng = random.Random(seed)
    drawn = sorted(median(rng.choices(values, k=len(values))) for _ in range(DRAWS))
    ends = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    low, high = (drawn[round(share * (DRAWS - 1))] for share in ends)
    return low, high


def within(ends: tuple[float, float], seconds: float) -> float:
    """The seconds, or the end of the range that they are beyond."""
    return max(ends[0], min(ends[1], seconds))


def repeats(
    seconds: float,
    *,
    least: int = 3,
    most: int = 15,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[int]:
    """Numbers of repeats while another one fits into `seconds`, and `least` in any case."""
    began = clock()
    for number in range(most):
        spent = clock() - began
        if number >= least and spent * (number + 1) / number > seconds:
            return
        yield number
