"""Calibrates residual scales and interval widths on held-out trainings.

Each training is predicted by the family without its model, without its cluster, and without both,
from as many measurements as the intervals will later rest on. Every held-out training counts the
same, however many rows it has.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from slurm_ext.model.arrays import Array
from slurm_ext.model.scaling.family import Family
from slurm_ext.model.scaling.laplace import initial_terms, laplace_fit, log_marginals, observe
from slurm_ext.model.scaling.model import ScalingMeasurement, fit
from slurm_ext.model.scaling.prior import BEYOND, INSIDE
from slurm_ext.model.scaling.terms import columns
from slurm_ext.training.scaling.fit import learn, without
from slurm_ext.training.scaling.rows import ScalingRow, by_pair, drawn, others, structured

LEVEL = 0.9
NARROWEST, WIDEST = 1.0, 6.0  # half widths in sds
FEWEST = 60  # rows predicted; with fewer, all strata of this number of points count together
MOST_ROWS = 150  # predicted of one training at a time
ROWS_OF_SCALES = 30
SEEDS = (1, 2)
EVEN = 4.0  # trainings' worth of trust in all scales being as likely
EM_ROUNDS = 8
STRUCTURED = (1, 3, 6, 12)
DRAWN = (10, 20)
UP_TO = (2.0, 4.0, 8.0, 16.0, inf)  # points: one width for each

Pairs = Mapping[tuple[str, str], Sequence[ScalingMeasurement]]
HeldOut = tuple[Family, str, str, Sequence[ScalingMeasurement]]


def trained(rows: Iterable[ScalingRow], *, seed: int = 0) -> Family:
    """A family with its scales' chances and its widths measured. Raises InputError."""
    rows = list(rows)
    family, pairs = learn(rows, seed=seed), by_pair(rows)
    if len({model for model, _ in pairs}) < 2:
        return family  # none can be held out: the usual chances and widths stay
    family = replace(family, chances=_chances(family, pairs))
    return replace(family, widths=_widths(family, pairs))


def _held_out(family: Family, pairs: Pairs) -> Iterator[HeldOut]:
    """Every pair with a family that does not know its model, its cluster, or either."""
    several = len(family.clusters) > 1
    for (model, cluster), points in pairs.items():
        yield without(family, model=model), model, cluster, points
        if several:
            yield without(family, cluster=cluster), model, cluster, points
            fewer = without(family, model=model)
            if (fewer.cluster != family.clusters.index(cluster)).any():
                yield without(fewer, cluster=cluster), model, cluster, points


def _chances(family: Family, pairs: Pairs) -> Array:
    """Frequency of each scale among trainings: expectation and maximisation."""
    logs = []
    for (model, cluster), points in pairs.items():
        prior = without(family, model=model).term_prior(model=model, cluster=cluster)
        for seed in SEEDS:
            revealed_points = [points[place] for place in drawn(points, ROWS_OF_SCALES, seed)]
            observed = observe(prior, *_steps(revealed_points))
            middle = laplace_fit(observed, np.ones(3), initial_terms(observed)).terms
            logs.append(log_marginals(observed, middle, family.scales))
    chances = np.full(len(family.scales), 1 / len(family.scales))
    likely = np.exp(np.array(logs) - np.max(logs, axis=1, keepdims=True))
    for _ in range(EM_ROUNDS):
        shares = likely * chances
        shares /= shares.sum(1, keepdims=True)
        chances = shares.sum(0) + EVEN / len(chances)
        chances /= chances.sum()
    return chances


def _widths(family: Family, pairs: Pairs) -> tuple[tuple[float, tuple[float, float]], ...]:
    """Half widths that cover LEVEL of what was held out; of everything, where a group has nothing.

    Trainings of a site's history may have a handful of measurements each.
    """
    misses = [one for held in _held_out(family, pairs) for one in _misses(*held)]
    if not misses:
        return family.widths
    points, stratum, missed, weight = np.array(misses).T
    widths, least = [], 0.0
    for most in UP_TO:
        group = (points > least) & (points <= most)
        group |= not group.any()
        widths.append((most, _by_stratum(stratum[group], missed[group], weight[group])))
        least = most
    return tuple(widths)


def _by_stratum(stratum: Array, missed: Array, weight: Array) -> tuple[float, float]:
    both = []
    for one in (INSIDE, BEYOND):
        mine = stratum == one
        enough = mine if mine.sum() >= FEWEST else np.ones(len(mine), dtype=bool)
        both.append(_quantile(missed[enough], weight[enough]))
    return both[0], both[1]


def _quantile(missed: Array, weight: Array) -> float:
    order = np.argsort(missed)
    reached = np.cumsum(weight[order]) / weight.sum()
    place = min(int(np.searchsorted(reached, LEVEL)), len(order) - 1)
    return float(np.clip(missed[order][place], NARROWEST, WIDEST))


def _misses(
    family: Family, model: str, cluster: str, points: Sequence[ScalingMeasurement]
) -> Iterator[tuple[float, float, float, float]]:
    """(points, stratum, miss in sds, weight) of the rows that were not revealed."""
    prior = family.prior(model=model, cluster=cluster)
    reveals = [structured(points, count) for count in STRUCTURED]
    reveals += [drawn(points, count, seed) for count in DRAWN for seed in SEEDS]
    for revealed in reveals:
        left = others(points, revealed)
        if not left:
            continue
        scaling = fit([points[place] for place in revealed], prior)
        some = np.random.default_rng(len(left)).permutation(left)[:MOST_ROWS]
        at, steps = _steps([points[place] for place in some])
        means, sds = scaling.log_steps(at)
        for stratum, miss in zip(scaling.strata(at), np.abs(steps - means) / sds, strict=True):
            yield len(revealed), stratum, float(miss), 1 / len(some)


def _steps(points: Sequence[ScalingMeasurement]) -> tuple[Array, Array]:
    at = columns([one.config for one in points])
    rates = np.log([one.samples_per_s for one in points])
    return at, np.log(at[:, 1]) + at[:, 0] - rates
