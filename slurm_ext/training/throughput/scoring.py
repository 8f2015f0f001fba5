"""Scores a prior on later runs, and the naive baseline that it has to beat."""

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.arrays import Array
from slurm_ext.model.throughput.artifact import TARGETS, forward
from slurm_ext.training.throughput.dataset import Example
from slurm_ext.training.throughput.fit import matrix, weights_of

LEVEL = 0.9


def score(weights: dict[str, Array], test: Sequence[Example]) -> dict[str, Any]:
    """Mean absolute log error of each target and of all, and how many fell into the interval."""
    means, sds = forward(weights, matrix(test))
    misses = np.abs(_targets(test) - means)
    inside = (misses <= NORMAL_90 * sds).mean(1)
    coverage = float(np.average(inside, weights=weights_of(test)))
    return {**_errors(misses, test), "coverage90": coverage}


def naive(train: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
    """Score the user's median of earlier runs, or the median of all for a new user."""
    by_user: dict[str | None, list[Example]] = {}
    for example in train:
        by_user.setdefault(example.known.user, []).append(example)
    medians = {user: _medians(theirs) for user, theirs in by_user.items()}
    everybody = _medians(train)
    answers = np.array([medians.get(example.known.user, everybody) for example in test])
    return _errors(np.abs(_targets(test) - answers), test)


def widened(weights: dict[str, Array], calibrate: Sequence[Example]) -> dict[str, Array]:
    """The same prior, its spreads scaled so that nine in ten of `calibrate` fall inside.

    Split conformal: the normalised miss of conformal rank, of each target; users as fair_weights.
    """
    means, sds = forward(weights, matrix(calibrate))
    ratios = np.abs(_targets(calibrate) - means) / sds
    reach = [_conformal(column, weights_of(calibrate)) for column in ratios.T]
    return {**weights, "widen": weights["widen"] * np.array(reach) / NORMAL_90}


def _conformal(misses: Array, weights: Array) -> float:
    """The miss of conformal rank among weighted ones; of equal weights, `conformal_rank`."""
    order = np.argsort(misses)
    reached = np.cumsum(weights[order])
    rank = min(reached[-1], (reached[-1] + 1) * LEVEL)
    return float(misses[order][np.searchsorted(reached, rank - 1e-9)])


def _targets(every: Sequence[Example]) -> Array:
    return np.array([example.targets for example in every])


def _medians(every: Sequence[Example]) -> tuple[float, ...]:
    return tuple(median(example.targets[i] for example in every) for i in range(len(TARGETS)))


def _errors(misses: Array, test: Sequence[Example]) -> dict[str, Any]:
    means = np.average(misses, axis=0, weights=weights_of(test))
    return {"mae": float(means.mean()), "mae_of": dict(zip(TARGETS, means.tolist(), strict=True))}
