"""Seconds of a step on k units (GPUs, threads, cores), relative to one unit.

    step(k) = work(k) + wait(k)
    work(k) = ((m^g + u) / (1 + u))^(1/g)          work(1) = 1
    wait(k) = v * 2(k - 1)/k * (1 + b * max(k - 2, 0))

m is what one unit has to do: 1/k where the units share a fixed step (a fixed global batch, threads
of one loader), 1 where each brings its own (a batch per GPU). u is what does not shrink with the
count, and g how sharply it shows: g = 1 is Amdahl's law, g towards 0 a power of k, a large g a hard
floor (kernels too small to be worth a launch). v is an all-reduce round a ring, b its growth with
the count: the coherence of the universal scalability law, and Pollux's slope of synchronising.

Whatever the terms, d log rate / d log k is at most 1: no curve of this family is super-linear.
"""

from dataclasses import dataclass

import numpy as np

from slurm_ext.model.arrays import Array

TERMS = ("log_u", "log_g", "log_v", "log_b")


def log_rates(terms: Array, counts: Array, *, splits: bool) -> Array:
    """Log rate over that of one unit: one row for each row of `terms`, one column a count."""
    gain = 0.0 if splits else np.log(counts)
    return np.asarray(gain - np.logaddexp(*_parts(terms, counts, splits)), dtype=np.float64)


def waiting(terms: Array, counts: Array, *, splits: bool) -> Array:
    """The share of a step that units wait for each other, in the form of `log_rates`."""
    work, wait = _parts(terms, counts, splits)
    return np.asarray(np.exp(-np.logaddexp(0.0, work - wait)), dtype=np.float64)


def _parts(terms: Array, counts: Array, splits: bool) -> tuple[Array, Array]:
    """Log work and log wait (-inf: none)."""
    log_u, log_g, log_v, log_b = (terms[:, slot, None] for slot in range(len(TERMS)))
    sharp = np.exp(log_g)
    share = -np.log(counts) if splits else np.zeros_like(counts)
    work = (np.logaddexp(sharp * share, log_u) - np.logaddexp(0.0, log_u)) / sharp
    with np.errstate(divide="ignore"):
        ring = np.log(2 * (counts - 1) / counts)
    return work, log_v + ring + np.log1p(np.exp(log_b) * np.maximum(counts - 2, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupPrior:
    """Normal prior of TERMS, noise of a measurement, and the kind of scaling.

    `splits`: the units share a fixed step (strong scaling); else each brings its own (weak).
    """

    splits: bool
    means: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    noise_log_sd: float  # of one measured rate, beyond what its own repetitions show
    widen: float = 1.0  # factor on the 90 % interval, from held-out jobs


def independent_prior(
    *,
    splits: bool,
    centres: tuple[float, ...],
    sds: tuple[float, ...],
    noise_log_sd: float = 0.03,
) -> SpeedupPrior:
    """Independent terms, before anything was learned."""
    rows = [tuple(sd**2 if i == j else 0.0 for j in range(len(sds))) for i, sd in enumerate(sds)]
    return SpeedupPrior(
        splits=splits, means=centres, covariance=tuple(rows), noise_log_sd=noise_log_sd
    )


# Centres: a tenth of the step does not divide (Amdahl's law), and waiting takes a twentieth of one
# unit's step. All are wide: a factor of five either way is not unusual.
GPUS_SPLIT = independent_prior(
    splits=True, centres=(-2.0, 0.2, -3.0, -4.0), sds=(2.0, 0.7, 1.5, 1.5)
)


GPUS_EACH = independent_prior(
    splits=False, centres=(-2.0, 0.2, -3.0, -4.0), sds=(2.0, 0.7, 1.5, 1.5)
)
