"""Change points of a unit's speed: a sequential likelihood-ratio test (CUSUM).

Each residual adds the log ratio of its likelihood on a slow unit to that on a usual one. Noise is
Student's t, whose degrees of freedom follow from all residuals, so that a single bad run says
little. The sum never falls below 0, and the unit is slow from where it last left 0 once it reaches
the bound; the same test backwards finds that it is as fast as others again.

A bound of log N is crossed by a usual unit once in N runs at most (Lorden, Annals of Mathematical
Statistics 42, 1971). No user adds more than a share to what blames a unit.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import lgamma, log

import numpy as np

from slurm_ext.core.stats import POOL_USERS, fair_limit
from slurm_ext.model.arrays import Array
from slurm_ext.model.node_speed.residuals import NodeResidual

SLOW = log(1.15)  # the slowdown that the test is sharpest for: time of a step, over its peers'
TAILS = (3.0, 5.0, 8.0, 15.0, 40.0)  # degrees of freedom that are tried


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a unit's speed: the run that it began with, the run that showed it, and which."""

    start: int
    shown: int
    slow: bool


def tail_of(scaled: Array) -> float:
    """Degrees of freedom of Student's t that residuals over their sds are most likely under."""
    if not len(scaled):
        return TAILS[0]
    clipped = np.clip(scaled, -20, 20)
    return max(TAILS, key=lambda tail: float(log_density(clipped, tail).sum()))


def log_density(scaled: Array, tail: float) -> Array:
    """Log density of Student's t with the spread that a robust sd of 1 has."""
    norm = lgamma((tail + 1) / 2) - lgamma(tail / 2) - 0.5 * log(tail * np.pi)
    return np.asarray(norm - (tail + 1) / 2 * np.log1p(scaled**2 / tail))


def scores(residuals: Sequence[NodeResidual], tail: float) -> list[float]:
    """Log likelihood ratio of each residual: on a slow unit, over a usual one."""
    values = np.array([residual.value for residual in residuals])
    sds = np.array([residual.sd for residual in residuals])
    slow = log_density((values + SLOW) / sds, tail)
    return [float(score) for score in slow - log_density(values / sds, tail)]


def slow_from(
    owners: Sequence[Hashable], added: Sequence[float], bound: float, users: int = POOL_USERS
) -> int | None:
    """Place from which on the unit is slow; None: it is not, or is no more."""
    every = list(changes(owners, added, bound, users))
    return every[-1].start if every and every[-1].slow else None


def changes(
    owners: Sequence[Hashable], added: Sequence[float], bound: float, users: int = POOL_USERS
) -> Iterator[Change]:
    """Each time that the unit becomes slow, or as fast as others again.

    `owners`: of each score; `users`: so many have to share what blames it.
    """
    total, start, slow = 0.0, 0, False
    for place, score in enumerate(added):
        if total <= 0:
            start = place
        total = max(0.0, total + (-score if slow else score))
        if total < bound:
            continue
        if slow or fair_sum(owners[start : place + 1], added[start : place + 1], users) >= bound:
            slow = not slow
            yield Change(start, place, slow)
            total = 0.0


def fair_sum(owners: Sequence[Hashable], added: Sequence[float], users: int = POOL_USERS) -> float:
    """Sum of scores of which no owner has more than one in `users`; 0 where fewer have any."""
    sums: dict[Hashable, float] = {}
    for owner, score in zip(owners, added, strict=True):
        sums[owner] = sums.get(owner, 0.0) + score
    blaming = [max(0.0, total) for total in sums.values()]
    limit = _fair_share(blaming, users)
    return sum(max(-limit, min(limit, total)) for total in sums.values())


def _fair_share(parts: Sequence[float], users: int) -> float:
    """Largest part of one owner that is at most one in `users` of the capped sum."""
    thousandths = fair_limit((int(1000 * part) for part in parts), users)
    return thousandths / 1000
