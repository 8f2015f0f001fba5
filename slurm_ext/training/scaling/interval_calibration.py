"""Calibrates residual scales and interval widths on held-out trainings.

Each training is predicted by a family that learned without its model, without its cluster, and
without both, from as many measurements as the intervals will later rest on. Every held-out training
counts the same, however many rows it has. A model or a cluster is what is exchangeable, not a row:
a width also has to cover each of them by the misses of the others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slurm_ext.model.arrays import Array
from slurm_ext.model.scaling.family import Family
from slurm_ext.model.scaling.laplace import initial_terms, laplace_fit, log_marginals, observe
from slurm_ext.model.scaling.model import ScalingMeasurement, fit
from slurm_ext.model.scaling.terms import columns
from slurm_ext.training.scaling.fit import learn, without
from slurm_ext.training.scaling.interval_widths import Misses, interval_widths
from slurm_ext.training.scaling.rows import ScalingRow, by_pair, drawn, others, structured

MOST_ROWS = 150  # predicted of one training at a time
ROWS_OF_SCALES = 30
SEEDS = (1, 2)
EVEN = 4.0  # trainings' worth of trust in all scales being as likely
EM_ROUNDS = 8
STRUCTURED = (1, 3, 6, 12)
DRAWN = (10, 20)
PARTS = 4  # that models, and clusters, are held out in; a family is learned for each

Pairs = Mapping[tuple[str, str], Sequence[ScalingMeasurement]]


class HeldOut(NamedTuple):
    """A training that `family` does not know; `group` is what was left out with it."""

    group: int
    family: Family
    model: str
    cluster: str
    points: Sequence[ScalingMeasurement]


def trained(rows: Iterable[ScalingRow], *, seed: int = 0) -> Family:
    """A family with its scales' chances and its widths measured. Raises InputError."""
    rows = list(rows)
    family, pairs = learn(rows, seed=seed), by_pair(rows)
    if len({model for model, _ in pairs}) < 2:
        return family  # none can be held out: the usual chances and widths stay
    family = replace(family, chances=_chances(family, pairs))
    misses = [miss for held_out in _held_out(family, rows) for miss in _misses(held_out)]
    return replace(family, widths=interval_widths(misses)) if misses else family


def _held_out(family: Family, rows: Sequence[ScalingRow]) -> Iterator[HeldOut]:
    """Every pair with a family that learned without its model, its cluster, or either."""
    for group, (kind, gone) in enumerate((*_parts(rows, "model"), *_parts(rows, "cluster"))):
        kept = [row for row in rows if getattr(row, kind) not in gone]
        fewer = replace(learn(kept), chances=family.chances)
        for pair, points in by_pair(row for row in rows if getattr(row, kind) in gone).items():
            held_out = HeldOut(group, fewer, *pair, points)
            yield held_out
            yield from _without_both(held_out) if kind == "model" else ()


def _parts(rows: Sequence[ScalingRow], kind: str) -> list[tuple[str, set[str]]]:
    """Names of models or clusters dealt into parts; none where there is one name only."""
    names = sorted({getattr(row, kind) for row in rows})
    parts = min(PARTS, len(names))
    return [(kind, set(names[part::parts])) for part in range(parts)] if parts > 1 else []


def _without_both(held_out: HeldOut) -> Iterator[HeldOut]:
    """The same without the cluster's rows, if it has some and others are left."""
    clusters = held_out.family.clusters
    if held_out.cluster in clusters and len(clusters) > 1:
        yield held_out._replace(family=without(held_out.family, cluster=held_out.cluster))


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


def _misses(held_out: HeldOut) -> Iterator[Misses]:
    """The rows that were not revealed, by reveal."""
    points, prior = (
        held_out.points,
        held_out.family.prior(model=held_out.model, cluster=held_out.cluster),
    )
    reveals = [structured(points, count) for count in STRUCTURED]
    reveals += [drawn(points, count, seed) for count in DRAWN for seed in SEEDS]
    for revealed in reveals:
        left = others(points, revealed)
        if left:
            some = np.random.default_rng(len(left)).permutation(left)[:MOST_ROWS]
            scaling = fit([points[place] for place in revealed], prior)
            at, steps = _steps([points[place] for place in some])
            means, sds = scaling.log_steps(at)
            yield Misses(
                group=np.full(len(some), float(held_out.group)),
                points=np.full(len(some), float(len(revealed))),
                stratum=np.array(scaling.strata(at), dtype=np.float64),
                missed=np.abs(steps - means) / sds,
                weight=np.full(len(some), 1 / len(some)),
            )


def _steps(points: Sequence[ScalingMeasurement]) -> tuple[Array, Array]:
    at = columns([point.config for point in points])
    rates = np.log([point.samples_per_s for point in points])
    return at, np.log(at[:, 1]) + at[:, 0] - rates
