"""Estimates from windows, with intervals by a bootstrap over windows and blocks of steps. Pure.

Steps are no independent draws: workers deliver in bursts, and a node's speed drifts. So whole
windows are drawn again, and within each of them blocks of consecutive steps (a moving block
bootstrap, Kunsch 1989).
"""

from __future__ import annotations

import random
from typing import Callable, Mapping, NamedTuple, Sequence

from .exposed import HIDDEN
from .plan import BOTH, CACHED, NORMAL, UNSYNCED

EXPOSED = "X"  # seconds of traced steps in which a rank communicated and computed nothing
LEVEL = 0.9  # of the intervals
PRECISE = 0.025  # of a normal step: half an interval's width at which measuring may stop
DRAWS, FEW_DRAWS = 1000, 200
LEAST_BLOCK = 4

Steps = Sequence[float]
ByKind = Mapping[str, Sequence[Steps]]
Means = Mapping[str, float]


class Figure(NamedTuple):
    """A value with its interval, in seconds of a step."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width."""
        return (self.high - self.low) / 2


def data_stall(means: Means) -> float:
    """Seconds of a step that end where batches are always there."""
    return means[NORMAL] - means[CACHED]


def with_exposed(
    windows: Mapping[str, list[list[float]]], sent: Sequence[Sequence[Mapping[str, float]]]
) -> dict[str, list[list[float]]]:
    """The windows, and exposed communication of those that were traced, if any were."""
    found = [[sum(one.values()) - one[HIDDEN] for one in steps] for steps in sent]
    return {**windows, EXPOSED: found} if found else {**windows}


def communication(means: Means) -> float:
    """Seconds of a step without a data stall that end where gradients are not synchronised."""
    return means[EXPOSED] if EXPOSED in means else means[CACHED] - means[BOTH]


def hidden_communication(means: Means) -> float:
    """Communication that a data stall hides: what fixing the data would uncover."""
    return communication(means) - (means[NORMAL] - means[UNSYNCED])


def computing(means: Means) -> float:
    """Seconds of a step with neither; communication included where nothing shows it."""
    if BOTH in means:
        return means[BOTH]
    return means[CACHED] - means.get(EXPOSED, 0.0)


def figures_of(kinds: Sequence[str]) -> dict[str, Callable[[Means], float]]:
    """Each figure that windows of these kinds tell."""
    found: dict[str, Callable[[Means], float]] = {
        "step": lambda means: means[NORMAL],
        "computing": computing,
        "data": data_stall,
    }
    if EXPOSED in kinds or {UNSYNCED, BOTH} <= set(kinds):
        found["communication"] = communication
    if {UNSYNCED, BOTH} <= set(kinds):
        found["hidden"] = hidden_communication
    return found


def mean(windows: Sequence[Steps]) -> float:
    """Mean of all steps of some windows."""
    return sum(map(sum, windows)) / sum(map(len, windows))


def estimates(
    windows: ByKind,
    figures: Mapping[str, Callable[[Means], float]],
    *,
    block: int,
    seed: int,
    draws: int = DRAWS,
) -> dict[str, Figure]:
    """Every figure with its interval; each kind needs a window with a step at least."""
    rng = random.Random(seed)  # noqa: S311 (draws of a bootstrap)
    resample = {kind: Resampler(steps, max(block, LEAST_BLOCK)) for kind, steps in windows.items()}
    drawn = [{kind: one.draw(rng) for kind, one in resample.items()} for _ in range(draws)]
    means = {kind: mean(steps) for kind, steps in windows.items()}
    found = {}
    for name, figure in figures.items():
        values = sorted(map(figure, drawn))
        low, high = (
            values[round(share * (draws - 1))] for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
        )
        found[name] = Figure(figure(means), low, high)
    return found


def precise(windows: ByKind, *, block: int, seed: int) -> bool:
    """True if every difference is known to a small part of a normal step."""
    figures = figures_of(list(windows))
    found = estimates(windows, figures, block=block, seed=seed, draws=FEW_DRAWS)
    bound = PRECISE * found["step"].value
    return all(figure.half_width <= bound for figure in found.values())


class Resampler:
    """Means of windows that are drawn again, block by block, from sums that are kept."""

    def __init__(self, windows: Sequence[Steps], block: int) -> None:
        self._sums = [_blocks(steps, block) for steps in windows if steps]

    def draw(self, rng: random.Random) -> float:
        """The mean of as many windows as there are, each drawn with its blocks."""
        total, count = 0.0, 0
        for _ in self._sums:
            blocks, length, times = self._sums[int(rng.random() * len(self._sums))]
            for _ in range(times):
                total += blocks[int(rng.random() * len(blocks))]
            count += length * times
        return total / count


def _blocks(steps: Steps, block: int) -> tuple[list[float], int, int]:
    """Sums of a window's blocks, one from each step on around its end; their length and number."""
    length = min(block, len(steps))
    around = [*steps, *steps[: length - 1]]
    sums = [sum(around[at : at + length]) for at in range(len(steps))]
    return sums, length, max(1, round(len(steps) / length))
