"""Speed of nginx beside noisy neighbours, from counters of the run and the neighbours' names.

A mean in logs of a Gaussian process (gaussian_process.py; it extrapolates, so it counts twice),
trees over counters core by core with the neighbours, and trees over the prior's residuals. The
prior is the product of the effects of each kind of neighbour alone, learned from runs of one kind:
the idea of model/slowdown/composition.py, for a percentile. If the neighbours are unknown: the
process, and trees over counters relative to the campaign's own quiet runs. This mix was chosen by
families, campaigns and counts left out of the development table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from contrib.bench.colocation.ntua.gaussian_process import process
from contrib.bench.colocation.ntua.scenario_names import KINDS
from contrib.bench.colocation.ntua.tables import Runs, relative
from contrib.bench.common.arrays import Array, Marks

RATE_WIDTH = 0.35  # of the log of the request rate: runs at a near rate count more
FAR = 0.01  # and those at any other a little
OWN_CAMPAIGN, OTHER_FAMILY = 2.0, 0.2  # campaigns of one family share their set-up
TREES, LEAF, COLUMNS = 80, 2, 0.4
LOWEST = 0.01
INSIDE = 0.9  # of residuals; both ways alike, for what is far may be off either way
LEAST_WIDTH, LEAST_SPAN = 0.01, 0.03
NEAR, FEWEST_PARTS = 150, 4
Rows = Marks


@dataclass(frozen=True, slots=True)
class SpeedPrediction:
    """Speeds, and how far off the process believes their logs to be (a standard deviation)."""

    mean: Array
    sd: Array

    @property
    def scale(self) -> Array:
        """Expected error of a speed; it grows with the distance to the training runs.

        Least near 0 and near 1, beyond which hardly any speed is.
        """
        middle = np.clip(self.mean, 0.0, 1.05)
        return np.asarray(LEAST_WIDTH + (LEAST_SPAN + middle * (1.1 - middle)) * self.sd)


@dataclass(frozen=True, slots=True)
class Residuals:
    """Residuals of rows predicted without similar ones, in units of `SpeedPrediction.scale`.

    `mean`: what was predicted for each row. Only the `near` rows predicted nearest count, since the
    scale is too wide for slow runs and too narrow for fast ones.
    """

    residuals: Array
    mean: Array
    near: int

    def ends(self, prediction: SpeedPrediction) -> tuple[Array, Array]:
        """The 90 % interval."""
        apart = np.abs(prediction.mean[:, None] - self.mean)
        nearest = np.argsort(apart, axis=1, kind="stable")[:, : self.near]
        half = np.quantile(np.abs(self.residuals)[nearest], INSIDE, axis=1) * prediction.scale
        return np.maximum(prediction.mean - half, LOWEST), prediction.mean + half


def joined_residuals(parts: Sequence[Residuals]) -> Residuals:
    """Residuals of several parts; of few parts all rows count, near ones could be one part's."""
    residuals, mean = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("residuals", "mean")
    )
    return Residuals(residuals, mean, NEAR if len(parts) >= FEWEST_PARTS else len(mean))


def predict(train: Runs, queries: Runs, *, seed: int = 0, trees: int = TREES) -> SpeedPrediction:
    """Speeds of `queries`; those without a neighbour are at their own."""
    logs, sds = np.zeros(len(queries)), np.zeros(len(queries))
    named = np.isfinite(queries.beside).all(axis=1)
    for rows, way in ((named, _named), (~named, _unnamed)):
        if (rows & ~queries.alone).any():
            part = rows | queries.alone  # they show how quiet it is there
            logs[part], sds[part] = way(train, queries.take(part), seed, trees)
    return SpeedPrediction(
        np.where(queries.alone, 1.0, np.exp(logs)), np.where(queries.alone, 0.0, sds)
    )


def _named(train: Runs, queries: Runs, seed: int, trees: int) -> tuple[Array, Array]:
    """Logs and their standard deviations where the neighbours are known."""
    train = train.take(np.asarray(np.isfinite(train.beside).all(axis=1), bool))
    own, other = product(train, train, apart=True), product(train, queries)
    plain = [np.column_stack([part.context, part.beside, part.plain]) for part in (train, queries)]
    with_prior = [
        np.column_stack([part.context, part.beside.sum(axis=1), np.log(prior), part.plain])
        for part, prior in ((train, own), (queries, other))
    ]
    held_out_residuals = _logs(train.speed) - np.log(own)
    middle, sds = process(train, queries)
    made = [
        middle,
        middle,
        _logs(_forest(plain, train.speed, seed, trees, columns=1.0)),
        np.log(other) + _forest(with_prior, held_out_residuals, seed + 1, trees),
    ]
    return np.mean(made, axis=0), sds


def _unnamed(train: Runs, queries: Runs, seed: int, trees: int) -> tuple[Array, Array]:
    """The same where counters alone have to tell."""
    middle, sds = process(train, queries, named=False)
    counters = [_counters(part, (train, queries)) for part in (train, queries)]
    made = [middle, _forest(counters, _logs(train.speed), seed, trees)]
    return np.mean(made, axis=0), sds


def _logs(speeds: Array) -> Array:
    return np.asarray(np.log(np.maximum(speeds, LOWEST)))


@dataclass(frozen=True, slots=True)
class RunContext:
    """Request rate, campaign and family of a run; runs that share them weigh more in its prior."""

    rate: float
    campaign: str
    family: str

    def weights(self, runs: Runs) -> Array:
        """Weight of each of these runs here."""
        apart = (np.log(runs.context[:, 0]) - np.log(self.rate)) / RATE_WIDTH
        near = np.exp(-0.5 * apart**2) + FAR
        near *= np.where(runs.family == self.family, 1.0, OTHER_FAMILY)
        return np.asarray(near * np.where(runs.campaign == self.campaign, OWN_CAMPAIGN, 1.0))


def product(train: Runs, queries: Runs, *, apart: bool = False) -> Array:
    """The product of each kind's effect alone; `apart`: no run's own campaign is looked at.

    A number of neighbours that was not met alone is the product of its halves.
    """
    logs = np.zeros(len(queries))
    for row in range(len(queries)):
        here = RunContext(
            queries.context[row, 0], str(queries.campaign[row]), str(queries.family[row])
        )
        for kind, many in enumerate(np.nan_to_num(queries.beside[row])):
            logs[row] += _alone(train, kind, int(many), here, apart=apart)
    return np.maximum(np.exp(logs), LOWEST)


def _alone(train: Runs, kind: int, many: int, here: RunContext, *, apart: bool) -> float:
    """Mean log speed beside so many of one kind."""
    if not many:
        return 0.0
    rows = (train.beside[:, kind] == many) & (train.beside.sum(axis=1) == many)
    if apart:
        rows &= train.campaign != here.campaign
    if not rows.any():
        half = many // 2
        parts = (half, many - half) if half else ()
        return sum(_alone(train, kind, part, here, apart=apart) for part in parts)
    weights = here.weights(train.take(rows))
    return float(weights @ _logs(train.speed[rows]) / weights.sum())


def folds(runs: Runs) -> dict[str, list[tuple[str, Rows, Rows]]]:
    """Ways to leave rows out, each as (name, rows to learn from, rows to predict).

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


def held_out_residuals(runs: Runs, ways: list[tuple[str, Rows, Rows]], *, trees: int) -> Residuals:
    """Residuals of rows with neighbours, each predicted from the other parts of its fold."""
    parts = []
    for _, learn, ask in ways:
        queries = runs.take(ask)
        parts.append(residuals(predict(runs.take(learn), queries, trees=trees), queries))
    return joined_residuals(parts)


def residuals(prediction: SpeedPrediction, queries: Runs) -> Residuals:
    """Residuals of the queries with neighbours."""
    off, beside = (queries.speed - prediction.mean) / prediction.scale, ~queries.alone
    return Residuals(off[beside], prediction.mean[beside], len(off))


def blind(queries: Runs) -> Runs:
    """The runs without their neighbours' names: counters alone."""
    return replace(queries, beside=np.where(queries.alone[:, None], queries.beside, np.nan))


def _counters(queries: Runs, everyone: tuple[Runs, ...]) -> Array:
    return np.column_stack([queries.context, relative(queries, everyone), queries.raw])


def _forest(
    rows: list[Array], target: Array, seed: int, trees: int, *, columns: float = COLUMNS
) -> Array:
    from sklearn.ensemble import ExtraTreesRegressor

    model = ExtraTreesRegressor(
        trees, min_samples_leaf=LEAF, max_features=columns, random_state=seed, n_jobs=1
    )
    learn, ask = filled(*rows)
    return np.asarray(model.fit(learn, target).predict(ask), dtype=np.float64)


def filled(learn: Array, ask: Array) -> tuple[Array, Array]:
    """Both tables with missing cells at the median of `learn`; columns without any value go."""
    usable = ~np.isnan(learn).all(axis=0)
    middle = np.nanmedian(learn[:, usable], axis=0)
    fill: Callable[[Array], Array] = lambda rows: np.where(  # noqa: E731 (used twice, here)
        np.isnan(rows[:, usable]), middle, rows[:, usable]
    )
    return fill(learn), fill(ask)
