"""Exact dynamic programme: one point for each job, within the units, of the highest value.

Measured curves are not concave (a training may gain nothing from the next core and much from the
one after), so a greedy division, unit by unit, can be trapped. This looks at every division, in
jobs x units x points steps.

Value of a point, in descending order of importance:
1. its rate, up to that of the cheapest point with ENOUGH of the job's maximum, over the rate at
   its proportional share;
2. what it gives beyond that (LUXURY): a plateau is climbed with units that no other job needs;
3. being what the job has already (STAY): of equal divisions the one with fewest changes;
4. nearness to its share (NEAR): units that speed up no job stay with, or go back to, their owners.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.policy.allocator.max_min_share import limited
from slurm_ext.policy.allocator.operating_points import OperatingPoint

ENOUGH = 0.98
LUXURY = 1e-3
STAY = 1e-7  # well above the rounding of sums of values, well below any gain that matters
NEAR = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Points to choose from for one job."""

    options: tuple[OperatingPoint, ...]  # never empty
    level: float  # bytes/s of storage that it can have at most
    enough_samples_per_s: float  # beyond it is luxury
    share_samples_per_s: float
    share_units: int
    now: OperatingPoint | None
    weight: float


def divide(choices: Sequence[JobOptions], units: int) -> list[OperatingPoint]:
    """The offers of the most valuable division; the cheapest options must fit together."""
    import numpy as np

    best = np.zeros(units + 1)  # value of the jobs so far, within at most so many units
    picks = []
    for choice in choices:
        total = np.full(units + 1, -np.inf)
        pick = np.zeros(units + 1, dtype=np.int32)
        for number, point in enumerate(choice.options):
            if point.units > units:
                continue
            here = best[: units + 1 - point.units] + value(choice, point, units)
            better = here > total[point.units :]
            total[point.units :][better] = here[better]
            pick[point.units :][better] = number
        best = total
        picks.append(pick.tolist())
    return _retrace(choices, picks, units)


def _retrace(
    choices: Sequence[JobOptions], picks: Sequence[Sequence[int]], units: int
) -> list[OperatingPoint]:
    chosen = []
    for choice, pick in zip(reversed(choices), reversed(picks), strict=True):
        point = choice.options[pick[units]]
        units -= point.units
        chosen.append(point)
    return chosen[::-1]


def value(choice: JobOptions, point: OperatingPoint, units: int) -> float:
    """Value of a point, as this file's docstring defines it."""
    rate = limited(point, choice.level).samples_per_s
    needed = min(rate, choice.enough_samples_per_s)
    worth = needed + LUXURY * (rate - needed)
    stays = choice.now is not None and same(choice.now, point)
    away = abs(point.units - choice.share_units) / units
    return choice.weight * worth / choice.share_samples_per_s + STAY * stays - NEAR * away


def enough(rates: Sequence[float]) -> float:
    """Of rates in ascending order of units: the first that reaches ENOUGH of the highest."""
    most = max(rates)
    return next(rate for rate in rates if rate >= ENOUGH * most)


def same(now: OperatingPoint, wanted: OperatingPoint) -> bool:
    """True if nothing on the node has to be changed to go from `now` to `wanted`."""
    return now.units == wanted.units and wanted.workers in {None, now.workers}
