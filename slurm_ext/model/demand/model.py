"""Forecasts the nodes needed some hours ahead, from a series of ten-minute slots.

A forecast is the demand now plus a change. The change is the mean of a ridge regression and of
boosted trees. Both are fitted to the middle of what may come: outages would move a squared error
more than all quiet weeks. Bounds are of the *highest* demand within PEAK_SLOTS: a
node that sleeps must not be needed all that time. Without a fit, the forecast is persistence.

Features are differences to now: the past hours, the same time a day and a week before (of now, and
of the hour predicted), means over windows, time of day and of week (UTC). Holidays are not known.
Nothing looks ahead: row i is made of slots 0 to i.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from slurm_ext.model.arrays import Array, weighted_quantile
from slurm_ext.model.boosted_trees import Forest

SLOT_S = 600
DAY, WEEK = 144, 1008  # slots
HORIZONS = (6, 18)  # slots ahead: an hour and three, as the published forecasts
PEAK_SLOTS = 36  # six hours
LEVELS = (0.7, 0.8, 0.9)
LAGS = (1, 2, 3, 4, 5, 6, 9, 12, 18, 24, 36, 48, 72, 108, 126, 138, 144, 288, 990, 1002, 1008)
WINDOWS = (3, 6, 18, 36, DAY, WEEK)
FEATURES = (
    *(f"lag_{lag}" for lag in LAGS),
    *(f"mean_{window}" for window in WINDOWS),
    "now",
    "day_sin",
    "day_cos",
    "half_day_sin",
    "half_day_cos",
    "week_sin",
    "week_cos",
)
STANDARD = 4.0  # a feature further from its mean than so many deviations is cut to it


class DemandPredictor(Protocol):
    """Predicts from the demand now (nodes) and the rows of `features`; one number a row."""

    @property
    def name(self) -> str:
        """Name of the predictor."""
        ...

    def change(self, rows: Array, horizon: int) -> Array:
        """Nodes more than now, so many slots (one of HORIZONS) ahead."""
        ...

    def peak(self, rows: Array, level: float) -> Array:
        """Nodes more than now that PEAK_SLOTS will not exceed, with the odds of a level."""
        ...


def features(need: Array, first_slot: int) -> Array:
    """Rows of FEATURES for every slot of a series without gaps; `first_slot`: Unix time / 600 s."""
    count = len(need)
    columns = [_lagged(need, lag) - need for lag in LAGS]
    total = np.concatenate(([0.0], np.cumsum(need)))
    for window in WINDOWS:
        start = np.maximum(np.arange(count) + 1 - window, 0)
        end = np.arange(1, count + 1)
        columns.append((total[end] - total[start]) / (end - start) - need)
    slot = np.arange(first_slot, first_slot + count)
    day, week = 2 * np.pi * (slot % DAY) / DAY, 2 * np.pi * (slot % WEEK) / WEEK
    turns = [day, 2 * day, week]
    columns += [need, *(wave(turn) for turn in turns for wave in (np.sin, np.cos))]
    return np.column_stack(columns)


def _lagged(need: Array, lag: int) -> Array:
    """The series `lag` slots earlier; the first `lag` values repeat its own beginning."""
    return np.concatenate((need[:lag], need[:-lag]))[: len(need)]


@dataclass(frozen=True, slots=True)
class Persistence:
    """Demand stays as it is; `peaks`: by level, quantiles of what six hours added in the past."""

    peaks: Mapping[float, float] = field(default_factory=dict)
    name: str = "persistence"

    def change(self, rows: Array, horizon: int) -> Array:  # noqa: ARG002 - none, however far
        """No change."""
        return np.zeros(len(rows))

    def peak(self, rows: Array, level: float) -> Array:
        """The same at every time."""
        return np.full(len(rows), self.peaks.get(level, 0.0))


@dataclass(frozen=True, eq=False, slots=True)
class RidgeLine:
    """A ridge regression of standardised features."""

    centre: Array
    scale: Array
    weights: Array
    start: float

    def __call__(self, rows: Array) -> Array:
        """One number a row."""
        standard = np.clip((rows - self.centre) / self.scale, -STANDARD, STANDARD)
        change: Array = standard @ self.weights + self.start
        return change


@dataclass(frozen=True, eq=False, slots=True)
class DemandModel:
    """A fitted predictor; `shifts` make each level's bound hold as often as it says."""

    lines: Mapping[int, RidgeLine]
    trees: Mapping[int, Forest]
    peaks: Mapping[float, Forest]
    shifts: Mapping[float, float]
    name: str = "learned"

    def change(self, rows: Array, horizon: int) -> Array:
        """The mean of line and trees."""
        change: Array = (self.lines[horizon](rows) + self.trees[horizon](rows)) / 2
        return change

    def peak(self, rows: Array, level: float) -> Array:
        """The level's trees, shifted."""
        peak: Array = self.peaks[level](rows) + self.shifts[level]
        return peak


def highest_ahead(need: Array) -> Array:
    """Highest need of the PEAK_SLOTS after each slot, less its own; NaN at the series' end."""
    highest = np.full(len(need), np.nan)
    if len(need) > PEAK_SLOTS:
        ahead = np.lib.stride_tricks.sliding_window_view(need[1:], PEAK_SLOTS).max(axis=1)
        highest[: len(ahead)] = ahead - need[: len(ahead)]
    return highest


def persistence_of(need: Array, weights: Array | None = None) -> Persistence:
    """Persistence with the peaks that the series had; `weights` of its slots, none: all alike."""
    added = highest_ahead(need)
    is_known = ~np.isnan(added)
    if not is_known.any():
        return Persistence()
    weight = np.ones(len(need)) if weights is None else weights
    return Persistence(
        {level: weighted_quantile(added[is_known], weight[is_known], level) for level in LEVELS}
    )
