"""Factors by which intervals have to be widened, from the ledger's own outcomes. Pure.

Anybody's jobs can end where their prediction did not say. So a user's factor moves away from one
only as far as it does without any one of the other users: his own outcomes count in full, those of
all others as far as no single one of them is needed for it.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence

from slurm_ext.core.records import Level
from slurm_ext.history.views.outcomes import Residual
from slurm_ext.model.throughput.calibration import (
    FEWEST,
    CalibrationPoint,
    factor_of_misses,
    in_half_widths,
)

NEWEST = 200  # outcomes: what is new on the cluster counts soon
Factors = Mapping[tuple[Level | None, str | None, bool], float]
"""By level, user and world: beside others on its cores, or not."""
_Miss = tuple[float, str]  # in half widths; whose outcome


def factors_of(residuals: Iterable[Residual]) -> Factors:
    """The factor of each level, and of any (None), for each user and for all others (None).

    Of each world: how far intervals beside others hold says nothing of those on cores of its own.
    1 where too few outcomes are known.
    """
    worlds: tuple[list[Residual], list[Residual]] = ([], [])
    for one in residuals:
        worlds[one.crowded].append(one)
    return {
        (level, user, bool(crowded)): factor
        for crowded, some in enumerate(worlds)
        for (level, user), factor in _factors(some).items()
    }


def _factors(residuals: Iterable[Residual]) -> dict[tuple[Level | None, str | None], float]:
    by_level: dict[Level | None, list[_Miss]] = {None: []}
    for one in residuals:
        miss = in_half_widths(unwidened(one)), one.user
        by_level[None].append(miss)
        by_level.setdefault(one.level, []).append(miss)
    every = sorted(by_level[None])
    users = {user for _, user in every}
    factors = dict[tuple[Level | None, str | None], float]()
    for level in (None, *Level):
        near = sorted(by_level.get(level, ()))
        without = {user: _without(user, near, every) for user in users}
        whole = _without(None, near, every)
        factors |= {(level, user): _fair(user, without, whole) for user in (*users, None)}
    return factors


def factor_for(factors: Factors, level: Level | None, user: str, *, crowded: bool = False) -> float:
    """The factor of this user's next prediction that rests on `level`; None: on any."""
    return factors.get((level, user, crowded)) or factors.get((level, None, crowded), 1.0)


def usual(factors: Factors) -> float:
    """The factor of somebody without outcomes; on a cluster with one user, that user's."""
    users = {user for _, user, _ in factors} - {None}
    return (
        factor_for(factors, None, users.pop() or "")
        if len(users) == 1
        else factors.get((None, None, False), 1.0)
    )


def _fair(user: str | None, without: Mapping[str, float], whole: float) -> float:
    """As far from one as the outcomes are without any one other user; `whole`: with all."""
    others = [factor for other, factor in without.items() if other != user]
    if not others:
        return whole
    return max(1.0, min(others)) if min(others) > 1 else min(1.0, max(others))


def _without(user: Hashable, of_level: Sequence[_Miss], every: Sequence[_Miss]) -> float:
    """The factor that all others' outcomes have: those of the level where they are enough."""
    near = [miss for miss, whose in of_level if whose != user]
    return factor_of_misses(
        near if len(near) >= FEWEST else [miss for miss, whose in every if whose != user]
    )


def unwidened(one: Residual) -> CalibrationPoint:
    """Undo the factor of the prediction's day, the last thing that was done to it."""
    low, high = (_narrowed(one.predicted, bound, one.factor) for bound in (one.low, one.high))
    return CalibrationPoint(predicted=one.predicted, low=low, high=high, measured=one.achieved)


def _narrowed(predicted: float, bound: float, factor: float) -> float:
    if min(predicted, bound, factor) <= 0:
        return bound  # no belief that a model of ours ever had; it counts as a miss
    return float(predicted * (bound / predicted) ** (1 / factor))
