"""Counters of a job alone as standardised numbers, for the counter model.

A missing counter is not 0 and not the mean: it is predicted from the others, with the variance that
is left (the conditional of a normal distribution over known jobs).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log

import numpy as np
from numpy.typing import NDArray

from slurm_ext.model.arrays import Array

FEWEST_JOBS = 3  # with a counter, for it to be a column
SHRUNK = 0.3  # of a correlation between counters: jobs are few
LEAST_SD = 1e-3  # a counter that never changes says nothing
MOST_SDS = 3.0  # further from all known jobs is as far as that: a line must not run on for ever


@dataclass(frozen=True, slots=True)
class CounterColumn:
    """One counter, or one per another (`per`: misses per instruction).

    `offset` is added under its logarithm; None: the number is taken as it is.
    """

    name: str
    offset: float | None = None
    per: str | None = None

    def of(self, features: Mapping[str, float]) -> float:
        """Value of the column for a job; NaN if it was not measured."""
        value = features.get(self.name)
        if value is not None and self.per is not None:
            whole = features.get(self.per)
            value = value / whole if whole else None
        if value is None or not isfinite(value):
            return float("nan")
        if self.offset is None:
            return float(value)
        return log(value + self.offset) if value + self.offset > 0 else float("nan")


@dataclass(frozen=True, slots=True)
class Scale:
    """Standardisation of columns, and their correlation (columns²)."""

    columns: tuple[CounterColumn, ...]
    centre: Array
    spread: Array
    correlation: Array

    def place(self, jobs: Sequence[Mapping[str, float]]) -> "Positions":
        """Position of each job in every column, and its variance."""
        rows = [self._placed(job) for job in jobs]
        width = len(self.columns)
        at = np.array([row[0] for row in rows]).reshape(-1, width)
        return Positions(at, np.array([row[1] for row in rows]).reshape(-1, width))

    def _placed(self, job: Mapping[str, float]) -> tuple[Array, Array]:
        raw = np.array([column.of(job) for column in self.columns])
        at = np.clip((raw - self.centre) / self.spread, -MOST_SDS, MOST_SDS)
        is_known = np.isfinite(at)
        if is_known.all():
            return at, np.zeros(len(at))
        gain = _gain(self.correlation, is_known)
        guess = gain @ at[is_known]
        left = 1.0 - np.einsum("ij,ji->i", gain, self.correlation[np.ix_(is_known, ~is_known)])
        variance = np.zeros(len(at))
        at[~is_known], variance[~is_known] = guess, np.clip(left, 0.0, 1.0)
        return at, variance


@dataclass(frozen=True, slots=True)
class Positions:
    """Jobs in standardised columns: means and variances (jobs x columns)."""

    at: Array
    variance: Array

    def __getitem__(self, columns: list[int]) -> "Positions":
        return Positions(self.at[:, columns], self.variance[:, columns])

    def __len__(self) -> int:
        return len(self.at)


def fit_scale(columns: Sequence[CounterColumn], jobs: Sequence[Mapping[str, float]]) -> Scale:
    """Standardisation by `jobs`; a column that is flat, or that too few of them have, is left."""
    raw = np.array([[column.of(job) for column in columns] for job in jobs])
    raw = raw.reshape(len(jobs), len(columns))
    kept = [
        place
        for place in range(len(columns))
        if np.isfinite(raw[:, place]).sum() >= FEWEST_JOBS and np.nanstd(raw[:, place]) > LEAST_SD
    ]
    raw = raw[:, kept]
    centre, spread = np.nanmean(raw, axis=0), np.nanstd(raw, axis=0)
    standard = np.nan_to_num((raw - centre) / spread)  # absent: at the mean, which shrinks
    together = (1.0 - SHRUNK) * (standard.T @ standard) / max(1, len(jobs))
    np.fill_diagonal(together, 1.0)
    return Scale(tuple(columns[place] for place in kept), centre, spread, together)


def _gain(correlation: Array, is_known: NDArray[np.bool_]) -> Array:
    """Regression of the columns that are not known on those that are."""
    if not is_known.any():
        return np.zeros((int((~is_known).sum()), 0))
    across = correlation[np.ix_(is_known, ~is_known)]
    return np.asarray(np.linalg.solve(correlation[np.ix_(is_known, is_known)], across).T)
