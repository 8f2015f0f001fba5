"""Fits the family of measured trainings (model/scaling/family.py).

All variances are those under which the measurements of all trainings are most probable together,
each drawn towards a usual value, since trainings are few.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from slurm_ext.core.errors import Extra, InputError
from slurm_ext.model.arrays import Array
from slurm_ext.model.scaling.family import LEVELS, OWN, Family, same_group
from slurm_ext.model.scaling.model import ScalingMeasurement, fit
from slurm_ext.model.scaling.prior import (
    DEFAULT_RESIDUALS,
    USUAL_NOISE,
    USUAL_WIDTHS,
    ScalingPrior,
    default_term_prior,
)
from slurm_ext.model.scaling.similarity import similarity
from slurm_ext.model.scaling.terms import TERMS, columns, log_step, slopes
from slurm_ext.training.scaling.rows import ScalingRow, by_pair, drawn

ROWS_A_PAIR = 40  # that are conditioned on
ROWS_OF_TERMS = 150  # that a pair's own terms are found from
ROUNDS = 40
DRAWN_SD = 2.0  # of a log variance, around its usual value
# Levels that share each part of the residuals: batches are the model's, layouts the cluster's.
SHARED = np.array(
    (
        (0, 1, 0, 1),  # batch
        (0, 1, 0, 1),  # same_batch
        (1, 0, 1, 1),  # layout
        (1, 0, 1, 1),  # same_layout
        (0, 1, 1, 1),  # both
    ),
    dtype=np.float64,
)
BATCH_SCALES, LAYOUT_SCALES, NOISE_SCALES = (0.3, 1.0, 3.0), (0.4, 1.0, 2.2), (0.35, 0.7, 1.0, 2.0)
SCALES = np.array([(a, b, c) for a in BATCH_SCALES for b in LAYOUT_SCALES for c in NOISE_SCALES])


@dataclass(frozen=True, eq=False, slots=True)
class LinearizedRows:
    """The family's rows before their variances are known; see Family."""

    model: Array
    cluster: Array
    at: Array
    logs: Array
    slopes: Array


def learn(rows: Iterable[ScalingRow], *, seed: int = 0) -> Family:
    """Fit a family to measurements of at least one training. Raises InputError if there is none.

    interval_calibration.py measures the scales of residuals and the widths of intervals.
    """
    pairs = by_pair(rows)
    if not pairs:
        raise InputError("scaling rows", "none: at least one measured training is needed")
    models = tuple(sorted({model for model, _ in pairs}))
    clusters = tuple(sorted({cluster for _, cluster in pairs}))
    batch0 = np.array([_smallest(pairs, model) for model in models])
    linearized = [
        _linear(points, models.index(model), clusters.index(cluster), batch0, seed)
        for (model, cluster), points in pairs.items()
    ]
    joined = LinearizedRows(*(np.concatenate(every) for every in zip(*linearized, strict=True)))
    terms, parts, noise_sd = _variances(joined)
    return Family(
        models=models,
        clusters=clusters,
        log_batch0=batch0,
        model=joined.model,
        cluster=joined.cluster,
        at=joined.at,
        logs=joined.logs,
        slopes=joined.slopes,
        terms=terms,
        parts=parts,
        noise_sd=noise_sd,
        scales=SCALES,
        chances=np.full(len(SCALES), 1 / len(SCALES)),
        widths=USUAL_WIDTHS,
    )


def without(family: Family, *, model: str | None = None, cluster: str | None = None) -> Family:
    """The family as it would be without the rows of a model, of a cluster, or of both."""
    keep = np.ones(len(family.at), dtype=bool)
    if model is not None:
        keep &= family.model != family.models.index(model)
    if cluster is not None:
        keep &= family.cluster != family.clusters.index(cluster)
    if not keep.any():
        raise InputError("scaling rows", "none is left: at least two trainings are needed")
    return replace(
        family,
        models=_without_name(family.models, model),
        clusters=_without_name(family.clusters, cluster),
        model=family.model[keep],
        cluster=family.cluster[keep],
        at=family.at[keep],
        logs=family.logs[keep],
        slopes=family.slopes[keep],
    )


def _without_name(names: tuple[str, ...], gone: str | None) -> tuple[str, ...]:
    """The same places, one of them without a name."""
    return tuple("" if name == gone else name for name in names)


def _smallest(pairs: dict[tuple[str, str], list[ScalingMeasurement]], model: str) -> float:
    return min(
        log(point.config.local_batch)
        for (name, _), points in pairs.items()
        if name == model
        for point in points
    )


def _linear(
    points: Sequence[ScalingMeasurement], model: int, cluster: int, batch0: Array, seed: int
) -> tuple[Array, ...]:
    """One training's rows: made linear around the terms that most of its measurements have."""
    most = [points[place] for place in drawn(points, ROWS_OF_TERMS, seed)]
    here = ScalingPrior(
        components=(replace(default_term_prior(), log_batch0=float(batch0[model])),),
        scales=np.ones((1, 3)),
        chances=np.ones(1),
        widths=USUAL_WIDTHS,
    )
    terms = fit(most, here).members[0][1].terms
    kept = most[:ROWS_A_PAIR]
    at = columns([point.config for point in kept])
    steps = np.log(at[:, 1]) + at[:, 0] - np.log([point.samples_per_s for point in kept])
    lean = slopes(terms, at, float(batch0[model]))
    off = (
        steps
        - log_step(terms, at, float(batch0[model]))
        + lean @ (terms - default_term_prior().means)
    )
    whose = np.full(len(at), model), np.full(len(at), cluster)
    return *whose, at, off, lean


def _variances(rows: LinearizedRows) -> tuple[Array, Array, float]:
    """Of terms by level, of parts by level, and the noise's sd: the most probable ones."""
    usual_terms = (
        np.diag(default_term_prior().covariance)[1:, None] / len(LEVELS) * np.ones(len(LEVELS))
    )
    usual_parts = (np.array(DEFAULT_RESIDUALS) ** 2 / SHARED.sum(1))[:, None] * SHARED
    shared = usual_parts > 0
    first = np.concatenate((usual_terms.ravel(), usual_parts[shared], [USUAL_NOISE**2]))
    logs = _most_probable(np.log(first), _stacked(rows, shared), _length(rows), rows.logs)
    best = np.exp(logs)
    split = usual_terms.size
    terms = np.zeros((len(TERMS), len(LEVELS)))
    terms[0, OWN] = default_term_prior().covariance[0, 0]  # the length of a step is unknown before
    terms[1:] = best[:split].reshape(usual_terms.shape)
    parts = np.zeros(SHARED.shape)
    parts[shared] = best[split:-1]
    return terms, parts, float(np.sqrt(best[-1]))


def _length(rows: LinearizedRows) -> Array:
    """Covariance by the length of a training's step alone, whose variance is not learned."""
    own = same_group(rows.model, rows.cluster, rows.model, rows.cluster)[OWN]
    lean = rows.slopes[:, 0]
    return np.asarray(default_term_prior().covariance[0, 0] * np.outer(lean, lean) * own)


def _stacked(rows: LinearizedRows, shared: NDArray[np.bool_]) -> Array:
    """Covariance that one unit of each learned variance adds to the rows: (variance, row, row)."""
    levels = same_group(rows.model, rows.cluster, rows.model, rows.cluster)
    near = similarity(rows.at, rows.at)
    every = [np.outer(lean, lean) * level for lean in rows.slopes.T[1:] for level in levels]
    every += [near[part] * levels[level] for part, level in np.argwhere(shared)]
    return np.stack([*every, np.eye(len(rows.at))])


def _most_probable(first: Array, stacked: Array, fixed: Array, logs: Array) -> Array:
    """Logarithms of the variances; quasi-Newton on the evidence and its slope."""
    with Extra("train"):
        from scipy.optimize import minimize

    def misfit(at: Array) -> tuple[float, Array]:
        variances = np.exp(at)
        whole = fixed + np.tensordot(variances, stacked, 1)
        factor, solved = np.linalg.cholesky(whole), np.linalg.inv(whole)
        pulled = solved @ logs
        drawn_back = (at - first) / DRAWN_SD**2
        value = 0.5 * logs @ pulled + np.log(np.diag(factor)).sum()
        bend = solved - np.outer(pulled, pulled)
        slope = 0.5 * variances * np.tensordot(stacked, bend, 2) + drawn_back
        return float(value + 0.5 * drawn_back @ (at - first)), slope

    best = minimize(misfit, first, jac=True, method="L-BFGS-B", options={"maxiter": ROUNDS})
    return np.asarray(best.x, dtype=np.float64)
