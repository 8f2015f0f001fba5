"""Fits the change of a pool's demand: a ridge line and boosted trees, and trees for its peaks."""

from dataclasses import replace
from typing import Any

import numpy as np

from slurm_ext.model.arrays import Array
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
TREES: dict[str, Any] = {
    "min_data_in_leaf": 100,
    "feature_fraction": 0.4,
    "bagging_fraction": 0.5,
    "num_threads": 1,
}
MEDIAN: dict[str, Any] = {"objective": "l1", "num_leaves": 15}
PEAK: dict[str, Any] = {"objective": "quantile", "num_leaves": 7, "min_data_in_leaf": 200}
ROUNDS, PEAK_ROUNDS = 300, 200


def fit(need: Array, rows: Array) -> DemandModel:
    """Fit all parts to a series and its features; the bounds are not shifted yet."""
    usable = np.arange(len(need)) >= min(WARM_UP, len(need) // 3)
    lines, trees, peaks = {}, {}, {}
    for horizon in HORIZONS:
        change = changes(need, horizon)
        known = usable & ~np.isnan(change)
        lines[horizon] = _line(rows[known], change[known])
        trees[horizon] = fit_forest(rows[known], change[known], {**TREES, **MEDIAN}, ROUNDS)
    added = highest_ahead(need)
    known = usable & ~np.isnan(added)
    for level in LEVELS:
        params = {**TREES, **PEAK, "alpha": level}
        peaks[level] = fit_forest(rows[known], added[known], params, PEAK_ROUNDS)
    return DemandModel(lines, trees, peaks, dict.fromkeys(LEVELS, 0.0))


def shortfalls(early: DemandModel, need: Array, rows: Array, split: int) -> dict[float, float]:
    """Return what each level's bound lacks to hold that often after `split` (split conformal)."""
    later = slice(split, len(need) - PEAK_SLOTS)
    added = highest_ahead(need)[later]
    return {
        level: float(np.quantile(added - early.peak(rows[later], level), level)) for level in LEVELS
    }


def changes(need: Array, horizon: int) -> Array:
    """Change of the need over `horizon` slots; NaN where the series ends before."""
    ahead = np.full(len(need), np.nan)
    ahead[:-horizon] = need[horizon:] - need[:-horizon]
    return ahead


def _line(rows: Array, change: Array) -> RidgeLine:
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    line = RidgeLine(centre, np.where(spread > 0, spread, 1.0), np.eye(rows.shape[1]), 0.0)
    standard = line(rows)  # by the same rule as in service
    most = CUT * max(float(np.median(np.abs(change))), 1.0)
    target = np.clip(change, -most, most)
    start = float(target.mean())
    mean = standard.mean(axis=0)
    inner = (standard - mean).T @ (standard - mean) + PENALTY * np.eye(rows.shape[1])
    weights = np.linalg.solve(inner, (standard - mean).T @ (target - start))
    return replace(line, weights=weights, start=start - float(mean @ weights))
