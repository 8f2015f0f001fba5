"""Units that are slower than their peers, from the runs of all users. Pure.

The bound of the test follows from what a site accepts (one false alarm in so many node-days) and
from how often its units are measured.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, expm1, log, sqrt

import numpy as np

from slurm_ext.core.stats import NORMAL_90, POOL_USERS
from slurm_ext.model.node_speed.changes import scores, slow_from, tail_of
from slurm_ext.model.node_speed.residuals import NodeResidual, UnitRun, residuals

NODE_DAYS = 1000.0  # in which one false alarm is accepted
DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitSpeed:
    """Time of a step on one unit over that on its peers, less 1, with its 90 % interval.

    `since_s`: when it became slow (epoch); None: it is as usual, and all its runs count.
    """

    unit: str
    slower: float
    low: float
    high: float
    runs: int
    users: int
    since_s: float | None = None


@dataclass(frozen=True, slots=True)
class UnitSpeeds:
    """Every unit that could be compared, the slowest first, and the runs it rests on."""

    units: tuple[UnitSpeed, ...]
    runs: int

    @property
    def slow(self) -> tuple[UnitSpeed, ...]:
        """Units that are blamed."""
        return tuple(unit for unit in self.units if unit.since_s is not None)


def unit_speeds(runs: Sequence[UnitRun], *, node_days: float = NODE_DAYS) -> UnitSpeeds:
    """Speed of every unit by `runs`, oldest first."""
    every = residuals(runs)
    users = min(POOL_USERS, len({residual.run.user for residual in every}))
    by_unit: dict[str, list[NodeResidual]] = defaultdict(list)
    for residual in every:
        by_unit[residual.run.unit].append(residual)
    tail = tail_of(np.array([residual.value / residual.sd for residual in every]))
    bound = bound_of(every, len(by_unit), node_days)
    units = [_speed(mine, tail, bound, users) for mine in by_unit.values()]
    return UnitSpeeds(tuple(sorted(units, key=lambda unit: -unit.slower)), len(every))


def bound_of(every: Sequence[NodeResidual], units: int, node_days: float) -> float:
    """Log of the runs that a unit has in `node_days`: a usual one crosses it once in them."""
    if not every:
        return log(node_days)
    span_s = max(DAY_S, every[-1].run.at_s - every[0].run.at_s)
    return log(node_days * max(1.0, len(every) * DAY_S / (units * span_s)))


def _speed(mine: Sequence[NodeResidual], tail: float, bound: float, users: int) -> UnitSpeed:
    """The unit's speed since it became slow, or over all its runs."""
    owners = [_owner(residual.run, users) for residual in mine]
    start = slow_from(owners, scores(mine, tail), bound, max(2, users))
    since = mine[start:] if start is not None else mine
    log_speed, log_sd = _middle(since)
    reach = NORMAL_90 * log_sd
    return UnitSpeed(
        unit=mine[0].run.unit,
        slower=expm1(-log_speed),
        low=exp(-log_speed - reach) - 1,
        high=exp(-log_speed + reach) - 1,
        runs=len(since),
        users=len({residual.run.user for residual in since}),
        since_s=None if start is None else since[0].run.at_s,
    )


def _owner(run: UnitRun, users: int) -> tuple[str, ...]:
    """Owner of a share: a user; on a cluster of one or two users each training of theirs."""
    return (run.user,) if users >= POOL_USERS else (run.user, run.training)


def _middle(every: Sequence[NodeResidual]) -> tuple[float, float]:
    """Weighted median of residuals, and its log sd."""
    values = np.array([residual.value for residual in every])
    trust = np.array([residual.sd**-2 for residual in every])
    order = np.argsort(values)
    below = np.cumsum(trust[order]) / trust.sum()
    middle = float(values[order][int(np.searchsorted(below, 0.5))])
    return middle, sqrt(1.57 / float(trust.sum()))
