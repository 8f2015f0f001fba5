"""Half widths of the 90 % interval, from misses of trainings that nothing was learned of.

A model or a cluster is what is exchangeable, not a row: many rows of few models prove little. So a
width is the quantile of all misses, times what the quantile of the others lacks to cover each group
that is left out in turn (cross-conformal prediction: Vovk, Annals of Mathematics and Artificial
Intelligence 74, 2015; a whole group is one fold).
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slurm_ext.model.arrays import Array
from slurm_ext.model.scaling.prior import BEYOND, INSIDE

LEVEL = 0.9
NARROWEST, WIDEST = 1.0, 6.0  # half widths in sds
FEWEST = 60  # rows predicted; with fewer, all strata of this number of points count together
UP_TO = (2.0, 4.0, 8.0, 16.0, inf)  # points: one width for each


class Misses(NamedTuple):
    """Absolute misses in sds by row; `group`: of the model or cluster that was held out."""

    group: Array
    points: Array  # measurements that the prediction rested on
    stratum: Array
    missed: Array
    weight: Array

    def where(self, rows: NDArray[np.bool_]) -> "Misses":
        """Return only these rows."""
        return Misses(*(column[rows] for column in self))


def interval_widths(
    parts: Sequence[Misses],
) -> tuple[tuple[float, tuple[float, float]], ...]:
    """Half widths that cover LEVEL of `parts`, at least one; see ScalingPrior.

    Trainings of a site's history may have a handful of measurements each: where a number of points
    has no row, everything counts.
    """
    every = Misses(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    widths, least = [], 0.0
    for most in UP_TO:
        mine = (every.points > least) & (every.points <= most)
        mine |= not mine.any()
        widths.append((most, _by_stratum(every.where(mine))))
        least = most
    return tuple(widths)


def _by_stratum(every: Misses) -> tuple[float, float]:
    both = []
    for stratum in (INSIDE, BEYOND):
        mine = every.where(every.stratum == stratum)
        both.append(min(WIDEST, reach(mine if len(mine.missed) >= FEWEST else every)))
    return both[0], both[1]


def reach(every: Misses) -> float:
    """Miss that covers LEVEL of a group that was not there: NARROWEST or more."""
    groups = np.unique(every.group)
    whole = _quantile(every)
    if len(groups) < 2:
        return whole
    relative = every.missed.copy()
    for group in groups:
        mine = every.group == group
        relative[mine] /= _quantile(every.where(~mine))
    return whole * _quantile(every._replace(missed=relative))


def _quantile(every: Misses) -> float:
    order = np.argsort(every.missed)
    reached = np.cumsum(every.weight[order]) / every.weight.sum()
    place = min(int(np.searchsorted(reached, LEVEL)), len(order) - 1)
    return max(NARROWEST, float(every.missed[order][place]))
