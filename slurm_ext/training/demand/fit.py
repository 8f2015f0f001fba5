"""Fits the change of a pool's demand: a ridge line and boosted trees, and trees for its peaks."""

from dataclasses import replace
from typing import Any

import numpy as np

from slurm_ext.model.arrays import Array, weighted_quantile
from slurm_ext.model.demand.model import (
    DAY,
    HORIZONS,
    LEVELS,
    PEAK_SLOTS,
    WEEK,
    DemandModel,
    RidgeLine,
    highest_ahead,
)
from slurm_ext.training.forests import fit_forest

WARM_UP = WEEK + DAY  # slots at the start whose lags are not all there
PENALTY = 1000.0
CUT = 3.0  # changes are cut to so many median changes for the line
FLAT = 1e-9  # of a feature's spread: below, it says nothing
TREES: dict[str, Any] = {
    "min_data_in_leaf": 100,
    "feature_fraction": 0.4,
    "bagging_fraction": 0.5,
    "num_threads": 1,
}
MEDIAN: dict[str, Any] = {"objective": "l1", "num_leaves": 15}
PEAK: dict[str, Any] = {"objective": "quantile", "num_leaves": 7, "min_data_in_leaf": 200}
ROUNDS, PEAK_ROUNDS = 300, 200


def fit(need: Array, rows: Array, weights: Array) -> DemandModel:
    """Fit all parts to a series and its features; the bounds are not shifted yet.

    `weights` of the slots, 1 on average: of no user too many.
    """
    usable = np.arange(len(need)) >= min(WARM_UP, len(need) // 3)
    alike = np.ptp(weights) == 0
    lines, trees, peaks = {}, {}, {}
    for horizon in HORIZONS:
        change = changes(need, horizon)
        labelled = usable & ~np.isnan(change)
        part, row_weights = (rows[labelled], change[labelled]), None if alike else weights[labelled]
        lines[horizon] = _line(*part, weights[labelled])
        trees[horizon] = fit_forest(*part, {**TREES, **MEDIAN}, ROUNDS, row_weights)
    added = highest_ahead(need)
    labelled = usable & ~np.isnan(added)
    for level in LEVELS:
        params = {**TREES, **PEAK, "alpha": level}
        part, row_weights = (rows[labelled], added[labelled]), None if alike else weights[labelled]
        peaks[level] = fit_forest(*part, params, PEAK_ROUNDS, row_weights)
    return DemandModel(lines, trees, peaks, dict.fromkeys(LEVELS, 0.0))


def shortfalls(
    early: DemandModel, need: Array, rows: Array, split: int, weights: Array
) -> dict[float, float]:
    """Return what each level's bound lacks to hold that often after `split` (split conformal)."""
    later = slice(split, len(need) - PEAK_SLOTS)
    added = highest_ahead(need)[later]
    return {
        level: weighted_quantile(added - early.peak(rows[later], level), weights[later], level)
        for level in LEVELS
    }


def changes(need: Array, horizon: int) -> Array:
    """Change of the need over `horizon` slots; NaN where the series ends before."""
    ahead = np.full(len(need), np.nan)
    ahead[:-horizon] = need[horizon:] - need[:-horizon]
    return ahead


def _line(rows: Array, change: Array, weights: Array) -> RidgeLine:
    centre = np.average(rows, axis=0, weights=weights)
    spread = np.sqrt(np.average((rows - centre) ** 2, axis=0, weights=weights))
    line = RidgeLine(centre, np.where(spread > FLAT, spread, 1.0), np.eye(rows.shape[1]), 0.0)
    standard = line(rows)  # by the same rule as in service
    most = CUT * max(weighted_quantile(np.abs(change), weights, 0.5), 1.0)
    target = np.clip(change, -most, most)
    start = float(np.average(target, weights=weights))
    mean = np.average(standard, axis=0, weights=weights)
    moments = (standard - mean).T * weights
    inner = moments @ (standard - mean) + PENALTY * np.eye(rows.shape[1])
    slopes = np.asarray(np.linalg.solve(inner, moments @ (target - start)), dtype=np.float64)
    return replace(line, weights=slopes, start=start - float(mean @ slopes))
