"""Learns the prior of speed-up curves from jobs that were measured at many counts.

Expectation-maximisation: every series is fitted under the current prior, and the next prior is
what the fits have in common. Each job counts once, however many series it has. The first prior
counts as SCEPTICS jobs, so few jobs change little.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from slurm_ext.core.stats import normal_reach
from slurm_ext.model.scaling.speedup import CountMeasurement, SpeedupCurve, curve_likelihood, fit
from slurm_ext.model.scaling.speedup_terms import SpeedupPrior, independent_prior

Array = NDArray[np.float64]
Series = Sequence[CountMeasurement]
Jobs = Mapping[str, Sequence[Series]]  # by job: model or pipeline, on one kind of hardware

# Amdahl's law (log_g = 0) is in the middle, since no other law is known to suit an unseen loader.
# The width reaches from a power of the count (turbo clocks, shared caches) to a hard floor (a lock,
# a disk). Repetitions tell their own noise, so that steady ones say which of these it is.
THREADS = independent_prior(
    splits=True, centres=(0.0, 0.0, -5.0, -4.0), sds=(2.0, 1.5, 2.0, 2.0), noise_log_sd=0.01
)

SCEPTICS = 2.0  # jobs' worth of trust in the prior that was there before
ROUNDS = 5
FOLDS = 6  # parts of the jobs that are left out in turn; with fewer jobs, one job at a time
LEVEL = 0.9
NARROWEST, WIDEST = 0.4, 5.0
# Misses, in half widths, of a prior that is right: what SCEPTICS jobs are taken to have shown.
_SHARES = (np.arange(40) + 0.5) / 40
EXPECTED = np.array([normal_reach(share) for share in _SHARES])
EXPECTED /= normal_reach(LEVEL)


@dataclass(frozen=True, slots=True)
class _SeriesTerms:
    """Terms that one series contributes to the prior."""

    weight: float
    mean: Array
    covariance: Array
    surprise: float  # its noise over what the prior says, squared


def learn(jobs: Jobs, start: SpeedupPrior) -> SpeedupPrior:
    """The prior after `jobs`; `start` where there are none. The interval is not yet calibrated."""
    prior = start
    if not jobs:
        return prior
    for _ in range(ROUNDS):
        prior = _common(list(_terms(jobs, prior)), start, prior, len(jobs))
    return prior


def calibrated(jobs: Jobs, start: SpeedupPrior, *, seen: float) -> SpeedupPrior:
    """As `learn`, with `widen` from predicting jobs that were left out.

    The counts up to `seen` of a job left out are what is known of it.
    """
    misses = list(_misses(jobs, start, seen))
    return replace(learn(jobs, start), widen=widening(misses, len(jobs)))


def widening(misses: Sequence[float], jobs: int) -> float:
    """The factor on half widths that nine in ten of the `misses` (in half widths) are within.

    Beside the misses stand those of SCEPTICS jobs that the prior did justice to: the counts of one
    job miss together, and many counts of few jobs prove little. Without misses it is 1.
    """
    if not misses:
        return 1.0
    every = np.minimum(np.concatenate([misses, EXPECTED]), WIDEST)
    counted = (len(misses), len(EXPECTED))
    weights = np.repeat((jobs / len(misses), SCEPTICS / len(EXPECTED)), counted)
    order = np.argsort(every)
    below = (np.cumsum(weights[order]) - 0.5 * weights[order]) / weights.sum()
    return max(NARROWEST, float(np.interp(LEVEL, below, every[order])))


def _terms(jobs: Jobs, prior: SpeedupPrior) -> Iterator[_SeriesTerms]:
    for series in jobs.values():
        for points in series:
            draws = fit(points, prior).draws
            likelihood = curve_likelihood(points, prior, draws.rows)
            strange = likelihood.squares.sum(1) / likelihood.noise_factor() ** 2
            surprise = float(draws.weights @ strange) / max(1, len(points) - 1)
            yield _SeriesTerms(1 / len(series), draws.mean(), draws.covariance(), surprise)


def _common(
    terms: Sequence[_SeriesTerms], start: SpeedupPrior, prior: SpeedupPrior, jobs: int
) -> SpeedupPrior:
    """Common prior of `terms`; `start` counts as SCEPTICS jobs more."""
    whole = SCEPTICS + jobs
    begun = np.array(start.means)
    means = (SCEPTICS * begun + sum(term.weight * term.mean for term in terms)) / whole
    covariance = SCEPTICS * np.array(start.covariance)
    noise = SCEPTICS * start.noise_log_sd**2
    for term in terms:
        away = term.mean - means
        covariance = covariance + term.weight * (term.covariance + np.outer(away, away))
        noise += term.weight * term.surprise * prior.noise_log_sd**2
    return replace(
        prior,
        means=tuple(means.tolist()),
        covariance=tuple(tuple(row) for row in (covariance / whole).tolist()),
        noise_log_sd=sqrt(noise / whole),
    )


def _misses(jobs: Jobs, start: SpeedupPrior, seen: float) -> Iterator[float]:
    """Each held-out count's miss in half widths of the interval."""
    names = sorted(jobs)
    for fold in range(min(FOLDS, len(names))):
        left_out = names[fold::FOLDS]
        prior = learn({name: jobs[name] for name in names if name not in left_out}, start)
        for points in (points for name in left_out for points in jobs[name]):
            known = [one for one in points if one.count <= seen]
            wanted = [one for one in points if one.count > seen]
            if known and wanted:
                fitted = fit(known, prior)
                yield from (_miss(fitted, one) for one in wanted)


def _miss(fitted: SpeedupCurve, wanted: CountMeasurement) -> float:
    rate, interval = fitted.rate(wanted.count)
    miss = log(wanted.rate / rate)
    half = log(interval.high / rate) if miss > 0 else log(rate / interval.low)
    return abs(miss) / half if half > 0 else inf
