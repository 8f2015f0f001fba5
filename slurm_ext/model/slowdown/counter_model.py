"""Predicts a job's speed beside another from counters of each alone: a Gaussian process, numpy.

Fitted to pairs of other jobs (training/slowdown/fit_counter_model.py), it predicts unseen jobs.
Several views, each on its own columns, are averaged: no counter is trusted alone. Speeds are
relative to the job alone; an interval is split-conformal, from held-out families of jobs. A
calibration on jobs with counters does not hold for jobs without: the more are missing, the more of
the process's own spread counts instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.arrays import Array, Rows
from slurm_ext.model.slowdown.counter_kernel import CounterKernel, kernel_blocks, prior_variances
from slurm_ext.model.slowdown.features import Positions, Scale

SLOWEST = 0.03  # a measured speed below it says no more
NEAR_TOP = 0.97
LEAST_KNOWN = 0.3  # of a view's columns: with fewer, a job is not predicted
Pair = tuple[SoloProfile, SoloProfile]


@dataclass(frozen=True, slots=True)
class CounterJobs:
    """Jobs by row: the key of each, and its position in the columns."""

    keys: tuple[str, ...]
    places: Positions


@dataclass(frozen=True, slots=True)
class PairObservations:
    """Measured pairs: rows into CounterJobs, log(top / speed - 1) and its variance."""

    rows: tuple[Rows, Rows]
    log_odds: Array
    noise_var: Array

    @property
    def level(self) -> float:
        """Jobs in general."""
        return float(self.log_odds.mean())


@dataclass(frozen=True, slots=True)
class CounterView:
    """One process over some columns: observations weighted by their inverse covariance."""

    columns: tuple[int, ...]
    weights: Array
    inverse: Array


@dataclass(frozen=True, slots=True)
class SpeedPredictions:
    """Speeds of many pairs: the mean, the ends of the 90 % interval, and the scale under them.

    `log_odds` is of mean / reference, with `top`.
    """

    mean: Array
    low: Array
    high: Array
    log_odds: Array
    log_odds_sd: Array
    reference: Array
    top: float

    def missed(self, measured: Array) -> Array:
        """Standard deviations by which each measured speed lies below its prediction."""
        return (log_odds(measured / self.reference, self.top) - self.log_odds) / self.log_odds_sd


@dataclass(frozen=True, slots=True)
class CounterModel:
    """Fitted and immutable. `met`: the measured pairs, as rows into `jobs`."""

    device: str  # that the pairs were measured on; another one widens the interval
    scale: Scale
    likeness: CounterKernel
    jobs: CounterJobs
    met: PairObservations
    views: tuple[CounterView, ...]
    top: float  # no job is faster beside another than this
    references: Mapping[str, float] = field(default_factory=dict)  # by key: true solo over recorded
    widths: tuple[float, float] = (NORMAL_90, NORMAL_90)  # standard deviations below, above
    other_device: float = 1.5  # times as wide there

    def predict(self, job: SoloProfile, beside: SoloProfile, device: str) -> RelativeSpeed | None:
        """Predict a speed; None if the device is of another kind, or counters are missing."""
        if (device == "cpu") != (self.device == "cpu") or not self.can_predict(job, beside):
            return None
        return self.speed(job, beside, device)

    def can_predict(self, *jobs: SoloProfile) -> bool:
        """True if enough counters of every job are known."""
        fewest = LEAST_KNOWN * len(self.scale.columns)
        return all(
            sum(np.isfinite(column.of(job.features)) for column in self.scale.columns)
            >= max(1, fewest)
            for job in jobs
        )

    def speed(
        self, job: SoloProfile, beside: SoloProfile, device: str | None = None
    ) -> RelativeSpeed:
        """Speed of `job` beside one other on `device` (by default the one of the fit)."""
        speeds = self.speeds([(job, beside)], device)
        return RelativeSpeed(
            mean=float(speeds.mean[0]),
            low=float(speeds.low[0]),
            high=float(speeds.high[0]),
            evidence=SpeedBasis.COUNTERS,
        )

    def speeds(self, pairs: Sequence[Pair], device: str | None = None) -> SpeedPredictions:
        """Predict many pairs: the mean of `log(top / speed - 1)` over views, and its spread."""
        queries, rows = collect_jobs(self.scale, pairs)
        shared = same(queries.keys, self.jobs.keys)
        answers = [self._view_mean(view, queries, rows, shared) for view in self.views]
        middle = np.mean([mean for mean, _ in answers], axis=0)
        spread = np.mean([var for _, var in answers], axis=0)
        spread += np.var([mean for mean, _ in answers], axis=0)
        return self._predictions(pairs, (middle, spread), gaps(queries.places, rows), device)

    def _view_mean(
        self, view: CounterView, queries: CounterJobs, rows: tuple[Rows, Rows], shared: Array
    ) -> tuple[Array, Array]:
        columns = list(view.columns)
        here, there = queries.places[columns], self.jobs.places[columns]
        towards = kernel_blocks(self.likeness, here, there, shared).between(rows, self.met.rows)
        explained = (towards @ view.inverse * towards).sum(axis=1)
        left = np.maximum(prior_variances(self.likeness, here, rows) - explained, 0.0)
        return self.met.level + towards @ view.weights, left

    def _predictions(
        self, pairs: Sequence[Pair], odds: tuple[Array, Array], gap: Array, device: str | None
    ) -> SpeedPredictions:
        middle, spread = odds
        sd = np.sqrt(spread + noise_var(self.likeness, speed_of(middle, self.top), self.top))
        wide = sd * (1.0 if device in {None, self.device} else self.other_device)
        below, above = (width + np.maximum(NORMAL_90 - width, 0.0) * gap for width in self.widths)
        reference = np.array([self.references.get(job.key, 1.0) for job, _ in pairs])
        mean, low, high = (
            reference * speed_of(at, self.top)
            for at in (middle, middle + below * wide, middle - above * wide)
        )
        return SpeedPredictions(mean, low, high, middle, sd, reference, self.top)


def collect_jobs(scale: Scale, pairs: Sequence[Pair]) -> tuple[CounterJobs, tuple[Rows, Rows]]:
    """Every job of `pairs` once, and the rows of each pair."""
    at: dict[tuple[str, tuple[tuple[str, float], ...]], int] = {}
    solos: list[SoloProfile] = []
    rows: list[list[int]] = [[], []]
    for pair in pairs:
        for side, solo in zip(rows, pair, strict=True):
            who = (solo.key, tuple(sorted(solo.features.items())))
            if who not in at:
                at[who] = len(solos)
                solos.append(solo)
            side.append(at[who])
    places = scale.place([solo.features for solo in solos])
    jobs = CounterJobs(tuple(solo.key for solo in solos), places)
    return jobs, (np.array(rows[0], dtype=np.int64), np.array(rows[1], dtype=np.int64))


def gaps(places: Positions, rows: tuple[Rows, Rows]) -> Array:
    """Uncertainty of each pair's least known counter: 0 all known, 1 one is unknown."""
    widest = places.variance.max(axis=1)
    return np.asarray(np.maximum(widest[rows[0]], widest[rows[1]]))


def same(one: Sequence[str], other: Sequence[str]) -> Array:
    """Return 1 where the keys are equal; an empty key equals no other."""
    equal = np.array(one, dtype=object)[:, None] == np.array(other, dtype=object)[None, :]
    named = np.array([bool(key) for key in one], dtype=bool)
    return np.asarray(equal.astype(bool) & named[:, None], dtype=np.float64)


def view(
    likeness: CounterKernel, jobs: CounterJobs, met: PairObservations, columns: Sequence[int]
) -> CounterView:
    """Fit the process over `columns`. Raises ValueError if the covariance of `met` is singular."""
    places = jobs.places[list(columns)]
    among = kernel_blocks(likeness, places, places, same(jobs.keys, jobs.keys))
    covariance = among.between(met.rows, met.rows) + np.diag(met.noise_var)
    inverse = np.asarray(np.linalg.inv(covariance), dtype=np.float64)  # LinAlgError: a ValueError
    return CounterView(tuple(columns), inverse @ (met.log_odds - met.level), inverse)


def log_odds(speed: Array, top: float) -> Array:
    """log(top / speed - 1) of measured speeds, kept away from both ends."""
    return np.asarray(np.log(top / np.clip(speed, SLOWEST, NEAR_TOP * top) - 1.0))


def speed_of(odds: Array, top: float) -> Array:
    """Its inverse."""
    return np.asarray(top / (1.0 + np.exp(odds)))


def noise_var(likeness: CounterKernel, speed: Array, top: float) -> Array:
    """Variance of one measurement, in log odds: a speed's own error counts more near the ends."""
    inside = np.clip(speed, SLOWEST, NEAR_TOP * top)
    slope = top / (inside * (top - inside))
    return np.asarray((likeness.speed_noise * slope) ** 2 + likeness.noise**2)
