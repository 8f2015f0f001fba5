"""Fits how many nodes will be needed, and has the fit challenge persistence on later weeks.

The challenger is fitted to the earlier part of the series and foretells the later one. Where it is
not nearer than persistence three hours ahead, persistence serves and the verdict says so. The later
part also shows how often the bounds hold: that shifts them. What serves is fitted to all.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.model.boosted_trees import Forest
from slurm_ext.model.demand.model import (
    DAY,
    HORIZONS,
    LEVELS,
    PEAK_SLOTS,
    WEEK,
    DemandModel,
    DemandPredictor,
    RidgeLine,
    features,
    highest_ahead,
    persistence_of,
)
from slurm_ext.training.duration.fit import planted

Array = NDArray[np.float64]
EARLIER = 0.7  # of the series; the rest judges
LEAST_GAIN = 0.005  # of the mean absolute error, by which persistence has to be beaten
FEWEST_SLOTS = 3 * WEEK
WARM_UP = WEEK + DAY  # slots at the start whose lags are not all there
PENALTY = 1000.0
CUT = 3.0  # a change teaches the line at most so many median changes
TREES: dict[str, Any] = {
    "learning_rate": 0.03,
    "min_data_in_leaf": 100,
    "feature_fraction": 0.4,
    "bagging_fraction": 0.5,
    "bagging_freq": 1,
    "extra_trees": True,
    "lambda_l2": 5.0,
    "seed": 0,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
MEDIAN: dict[str, Any] = {"objective": "l1", "num_leaves": 15}
ROUNDS, PEAK_ROUNDS = 300, 200


@dataclass(frozen=True, slots=True)
class DemandVerdict:
    """Who serves, and why; errors three hours ahead, on the later part."""

    serves: DemandPredictor
    reason: str
    learned_mae: float | None = None
    persistence_mae: float | None = None


def challenge(need: Array, first_slot: int) -> DemandVerdict:
    """The outlook to serve from now on; `need` in nodes, a slot each, without gaps."""
    if len(need) < FEWEST_SLOTS:
        days = f"{len(need) / DAY:.1f} days of demand are known, {FEWEST_SLOTS / DAY:.0f} needed"
        return DemandVerdict(persistence_of(need), f"persistence: {days} to learn from")
    rows = features(need, first_slot)
    split, furthest = int(EARLIER * len(need)), HORIZONS[-1]
    early = fit(need[:split], rows[:split])
    later = slice(split, len(need) - furthest)
    change = _changes(need, furthest)[later]
    mine = float(np.abs(early.change(rows[later], furthest) - change).mean())
    theirs = float(np.abs(change).mean())
    said = f"{mine:.2f} off three hours ahead, persistence {theirs:.2f}"
    if not mine < theirs * (1 - LEAST_GAIN):
        return DemandVerdict(
            persistence_of(need), f"persistence: the learned was {said}", mine, theirs
        )
    shifts = missed_by(early, need, rows, split)
    serves = replace(fit(need, rows), shifts=shifts)
    return DemandVerdict(serves, f"learned: {said}", mine, theirs)


def fit(need: Array, rows: Array) -> DemandModel:
    """All parts, from a series and its features; bounds as the trees have them."""
    usable = np.arange(len(need)) >= min(WARM_UP, len(need) // 3)
    lines, trees, peaks = {}, {}, {}
    for horizon in HORIZONS:
        change = _changes(need, horizon)
        known = usable & ~np.isnan(change)
        lines[horizon] = _line(rows[known], change[known])
        trees[horizon] = _boosted(rows[known], change[known], MEDIAN, ROUNDS)
    added = highest_ahead(need)
    known = usable & ~np.isnan(added)
    for level in LEVELS:
        asked = {"objective": "quantile", "alpha": level, "num_leaves": 7, "min_data_in_leaf": 200}
        peaks[level] = _boosted(rows[known], added[known], asked, PEAK_ROUNDS)
    return DemandModel(lines, trees, peaks, dict.fromkeys(LEVELS, 0.0))


def missed_by(early: DemandModel, need: Array, rows: Array, split: int) -> dict[float, float]:
    """What to add to bounds for each to hold as often as its level, after `split` (conformal)."""
    later = slice(split, len(need) - PEAK_SLOTS)
    added = highest_ahead(need)[later]
    return {
        level: float(np.quantile(added - early.peak(rows[later], level), level)) for level in LEVELS
    }


def _changes(need: Array, horizon: int) -> Array:
    told = np.full(len(need), np.nan)
    told[:-horizon] = need[horizon:] - need[:-horizon]
    return told


def _line(rows: Array, change: Array) -> RidgeLine:
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    line = RidgeLine(centre, np.where(spread > 0, spread, 1.0), np.eye(rows.shape[1]), 0.0)
    standard = line(rows)  # by the very rule that serves
    most = CUT * max(float(np.median(np.abs(change))), 1.0)
    target = np.clip(change, -most, most)
    start = float(target.mean())
    mean = standard.mean(axis=0)
    inner = (standard - mean).T @ (standard - mean) + PENALTY * np.eye(rows.shape[1])
    weights = np.linalg.solve(inner, (standard - mean).T @ (target - start))
    return replace(line, weights=weights, start=start - float(mean @ weights))


def _boosted(rows: Array, target: Array, asked: dict[str, Any], rounds: int) -> Forest:
    import lightgbm

    data = lightgbm.Dataset(rows, target, params={"verbosity": -1})
    booster = lightgbm.train({**TREES, **asked}, data, rounds)
    return planted(booster.dump_model())
