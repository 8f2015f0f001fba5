"""Scores a prior on later runs, and the naive baseline that it has to beat."""

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from slurm_ext.core.stats import NORMAL_90, conformal_rank
from slurm_ext.model.arrays import Array
from slurm_ext.model.throughput.artifact import TARGETS, forward
from slurm_ext.training.throughput.dataset import Example
from slurm_ext.training.throughput.fit import matrix

LEVEL = 0.9


def score(weights: dict[str, Array], test: Sequence[Example]) -> dict[str, Any]:
    """Mean absolute log error of each target and of all, and how many fell into the interval."""
    means, sds = forward(weights, matrix(test))
    misses = np.abs(_targets(test) - means)
    return {**_errors(misses), "coverage90": float((misses <= NORMAL_90 * sds).mean())}


def naive(train: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
    """Score the user's median of earlier runs, or the median of all for a new user."""
    by_user: dict[str | None, list[Example]] = {}
    for one in train:
        by_user.setdefault(one.known.user, []).append(one)
    medians = {user: _medians(theirs) for user, theirs in by_user.items()}
    everybody = _medians(train)
    answers = np.array([medians.get(one.known.user, everybody) for one in test])
    return _errors(np.abs(_targets(test) - answers))


def widened(weights: dict[str, Array], calibrate: Sequence[Example]) -> dict[str, Array]:
    """The same prior, its spreads scaled so that nine in ten of `calibrate` fall inside.

    Split conformal: the normalised miss of conformal rank, of each target.
    """
    means, sds = forward(weights, matrix(calibrate))
    ratios = np.sort(np.abs(_targets(calibrate) - means) / sds, axis=0)
    rank = conformal_rank(len(ratios), LEVEL)
    return {**weights, "widen": weights["widen"] * ratios[rank - 1] / NORMAL_90}


def _targets(every: Sequence[Example]) -> Array:
    return np.array([one.targets for one in every])


def _medians(every: Sequence[Example]) -> tuple[float, ...]:
    return tuple(median(one.targets[i] for one in every) for i in range(len(TARGETS)))


def _errors(misses: Array) -> dict[str, Any]:
    each = dict(zip(TARGETS, misses.mean(0).tolist(), strict=True))
    return {"mae": float(misses.mean()), "mae_of": each}
