"""How nginx fares beside noisy neighbours, from counters of the run and from who is there.

Five forests are averaged in logs: counters relative to the campaign's own quiet runs; what they say
of the prior's miss; counters core by core as they are, with who is beside, once of logs and once of
speeds; and what those say of the prior's miss. The prior is the product of what each kind of
neighbour does alone, learnt from runs of one kind: model/composition.py's idea, for a percentile.
Which ones: by families, campaigns and counts left out of the development table.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from colocation_metrics import Array  # type: ignore[import-not-found]  # beside this file
from colocation_ntua_table import KINDS, Runs, relative  # type: ignore[import-not-found]
from numpy.typing import NDArray

RATE_WIDTH = 0.35  # of the log of the request rate: runs at a near rate count more
FAR = 0.01  # and those at any other a little
TREES, LEAF, COLUMNS = 80, 2, 0.4
LOWEST = 0.01
LOW_Q, HIGH_Q = 0.04, 0.94  # of misses: nearly nine in ten between; runs alone add to them
FLOOR_WIDTH = 0.03
Rows = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Miss:
    """Misses of rows that were foretold without their like, in widths of `scale`."""

    misses: Array

    def ends(self, told: Array) -> tuple[Array, Array]:
        """The 90 % interval."""
        wide = scale(told)
        low, high = np.quantile(self.misses, [LOW_Q, HIGH_Q])
        return np.maximum(told + low * wide, LOWEST), told + high * wide


def foretell(train: Runs, asked: Runs, *, seed: int = 0, trees: int = TREES) -> Array:
    """Speeds of `asked`; those without a neighbour are at their own."""
    own, other = product(train, train, apart=True), product(train, asked)
    both = list(zip((train, asked), (own, other), strict=True))
    counters = [_counters(one, (train, asked)) for one in (train, asked)]
    with_prior = [
        np.column_stack([columns, np.log(prior), _many(one)])
        for columns, (one, prior) in zip(counters, both, strict=True)
    ]
    plain = [np.column_stack([one.context, one.beside, one.plain]) for one, _ in both]
    plain_prior = [
        np.column_stack([one.context, _many(one), np.log(prior), one.plain]) for one, prior in both
    ]
    logs = np.log(np.maximum(train.speed, LOWEST))
    missed = logs - np.log(own)
    made = [
        _forest(counters, logs, seed, trees),
        np.log(other) + _forest(with_prior, missed, seed + 1, trees),
        _forest(plain, logs, seed + 2, trees),
        np.log(np.maximum(_forest(plain, train.speed, seed + 3, trees), LOWEST)),
        np.log(other) + _forest(plain_prior, missed, seed + 4, trees),
    ]
    known = np.isfinite(asked.beside).all(axis=1)
    middle = np.where(known, np.mean(made, axis=0), made[0])
    return np.where(asked.alone, 1.0, np.exp(middle))


def product(train: Runs, asked: Runs, *, apart: bool = False) -> Array:
    """The product of each kind's effect alone; `apart`: no run's own campaign is looked at.

    A number of neighbours that was not met alone is the product of its halves.
    """
    logs = np.zeros(len(asked))
    for row in range(len(asked)):
        campaign = str(asked.campaign[row]) if apart else None
        for kind, many in enumerate(np.nan_to_num(asked.beside[row])):
            logs[row] += _alone(train, kind, int(many), asked.context[row, 0], campaign)
    return np.maximum(np.exp(logs), LOWEST)


def _alone(train: Runs, kind: int, many: int, rate: float, campaign: str | None) -> float:
    """Mean log speed beside so many of one kind, near that request rate."""
    if not many:
        return 0.0
    rows = (train.beside[:, kind] == many) & (train.beside.sum(axis=1) == many)
    if campaign is not None:
        rows &= train.campaign != campaign
    if not rows.any():
        half = many // 2
        parts = (half, many - half) if half else ()
        return sum(_alone(train, kind, part, rate, campaign) for part in parts)
    apart = (np.log(train.context[rows, 0]) - np.log(rate)) / RATE_WIDTH
    weights = np.exp(-0.5 * apart**2) + FAR
    logs = np.log(np.maximum(train.speed[rows], LOWEST))
    return float(weights @ logs / weights.sum())


def folds(runs: Runs) -> dict[str, list[tuple[str, Rows, Rows]]]:
    """Ways to leave rows out: name, what is learnt from, what is foretold.

    `counts`: one number of one kind was never met, as a mix was not. `families`: campaigns named
    alike go together (harder than `campaigns`: a sister campaign shares its set-up).
    """
    made: dict[str, list[tuple[str, Rows, Rows]]] = {"counts": [], "campaigns": [], "families": []}
    for kind, name in enumerate(KINDS):
        met = runs.beside[np.isfinite(runs.beside[:, kind]), kind]
        for many in sorted(set(met) - {0.0, 1.0}):
            rows = runs.beside[:, kind] == many
            made["counts"].append((f"{int(many)} {name}", ~rows, rows))
    for way, names in (("campaigns", runs.campaign), ("families", runs.family)):
        for name in sorted(set(names)):
            made[way].append((str(name), names != name, names == name))
    return made


def missed(runs: Runs, ways: list[tuple[str, Rows, Rows]], *, trees: int) -> Miss:
    """What is missed of rows beside somebody, each foretold by the others of its way."""
    found = []
    for _, learn, ask in ways:
        asked = runs.take(ask & ~runs.alone)
        found.append(misses(foretell(runs.take(learn), asked, trees=trees), asked.speed))
    return Miss(np.concatenate(found))


def misses(told: Array, measured: Array) -> Array:
    """In widths of `scale`."""
    return np.asarray((measured - told) / scale(told))


def scale(told: Array) -> Array:
    """How far a speed is off in general: least near 0 and near 1."""
    return FLOOR_WIDTH + np.clip(told, 0.0, 1.05) * (1.1 - np.clip(told, 0.0, 1.05))


def blind(asked: Runs) -> Runs:
    """As if nobody had told who is beside: counters alone."""
    return replace(asked, beside=np.where(asked.alone[:, None], asked.beside, np.nan))


def _counters(asked: Runs, everyone: tuple[Runs, ...]) -> Array:
    return np.column_stack([asked.context, relative(asked, everyone), asked.raw])


def _many(asked: Runs) -> Array:
    return np.asarray(asked.beside.sum(axis=1))


def _forest(columns: list[Array], target: Array, seed: int, trees: int) -> Array:
    from sklearn.ensemble import ExtraTreesRegressor

    model = ExtraTreesRegressor(
        trees, min_samples_leaf=LEAF, max_features=COLUMNS, random_state=seed, n_jobs=1
    )
    learn, ask = filled(*columns)
    return np.asarray(model.fit(learn, target).predict(ask), dtype=np.float64)


def filled(learn: Array, ask: Array) -> tuple[Array, Array]:
    """What was not measured is at the median of what is learnt from."""
    known = ~np.isnan(learn).all(axis=0)
    middle = np.nanmedian(learn[:, known], axis=0)
    fill: Callable[[Array], Array] = lambda rows: np.where(  # noqa: E731 (used twice, here)
        np.isnan(rows[:, known]), middle, rows[:, known]
    )
    return fill(learn), fill(ask)
