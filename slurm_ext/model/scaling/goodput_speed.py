"""Predicts a training's step times at other sizes, from measurements of the running job itself.

A job that changes its size measures each config twice: computing, and waiting for the gradients of
others. Both are regressions in logs under a normal prior, with a Gaussian process for residuals:

    compute = t0 * (s + (1 - s) * m/m0) * g^kappa      m samples a GPU, g GPUs on the fullest node
    sync    = 0 on one GPU                              K GPUs, N nodes
              t0 * r * (K - 1)^rho * (m/m0)^beta            one node
              t0 * n * (N - 1)^nu * g^eta * (m/m0)^beta     several

The terms and the means of the prior are those of terms.py and prior.py without a fitted family;
here both parts are measured, so that a prediction is closed form and takes microseconds. `hope`
makes an untried config look somewhat better than expected, so that it is tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_ext.core.errors import InputError
from slurm_ext.model.arrays import Array
from slurm_ext.model.scaling.prior import DEFAULT_TERMS

FIXED = 1 / (1 + np.exp(-np.linspace(-3, 3, 9)))  # s, the share of a step that batch never moves
RESIDUAL_SD, LENGTH, NOISE = 0.08, 1.0, 0.03  # sd and length (logs) of residuals, sd of noise
SYNC_RESIDUAL_SD = 0.2  # of the far smaller part of a step
SAME = 0.6  # correlation of synchronising in a node and between nodes: the same gradients
COMPUTING = np.diag(
    [1.0, DEFAULT_TERMS["kappa"][1] ** 2, 0.0]
)  # the batch only says which are similar
BATCH_SD = 0.3  # of beta: overlap hides more of a longer step
HOPE = 0.0
MOST_POINTS = 32  # the latest measured; more add microseconds and nothing else
LEAST_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMeasurement:
    """One measured config: GPUs, nodes, GPUs of the fullest node, samples a GPU; seconds."""

    gpus: int
    nodes: int
    most: int
    local: float
    compute_s: float
    sync_s: float


@dataclass(frozen=True, eq=False, slots=True)
class Regression:
    """A posterior: a linear mean, and a Gaussian process around it."""

    at: Array
    terms: Array
    covariance: Array
    residual_sd: float
    weights: Array  # inverse of what is measured's covariance times what it surprised by
    inverse: Array

    def answer(self, at: Array) -> tuple[Array, Array]:
        """Mean and sd for rows of features."""
        spread = at @ self.covariance
        covariance = spread @ self.at.T + _similarity(at, self.at, self.residual_sd)
        variance = (spread * at).sum(axis=1) + self.residual_sd**2
        variance -= ((covariance @ self.inverse) * covariance).sum(axis=1)
        return at @ self.terms + covariance @ self.weights, np.sqrt(np.maximum(variance, 0))


def regress(
    at: Array, values: Array, terms: Array, covariance: Array, residual_sd: float
) -> tuple[Regression, float]:
    """The posterior, and the log chance of what was measured (up to a constant)."""
    variance = (
        at @ covariance @ at.T + _similarity(at, at, residual_sd) + NOISE**2 * np.eye(len(at))
    )
    inverse: Array = np.linalg.inv(variance).astype(np.float64)
    missed = values - at @ terms
    weights = inverse @ missed
    chance = -0.5 * float(missed @ weights) - 0.5 * float(np.linalg.slogdet(variance)[1])
    return Regression(at, terms, covariance, residual_sd, weights, inverse), chance


def _similarity(one: Array, other: Array, residual_sd: float) -> Array:
    """Similarity of configs: features are logs, so distance is in ratios."""
    apart = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2 * one @ other.T
    near: Array = residual_sd**2 * np.exp(-apart / (2 * LENGTH**2))
    return near


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class StepTimeModel:
    """A fitted job: ask it for the seconds of a step anywhere."""

    local0: float
    fixed: float
    compute: Regression
    sync: Regression
    hope: float  # sds that what was never tried is thought to take less than expected
    alone_s: float  # what one GPU's step waits besides computing

    def steps(self, gpus: Array, nodes: Array, most: Array, local: Array) -> tuple[Array, Array]:
        """Seconds of computing and of synchronising."""
        batch = local / self.local0
        mean, _ = self.compute.answer(_computing(most, batch))
        shape = np.log(self.fixed + (1 - self.fixed) * batch)
        compute_s = np.exp(mean + shape)
        mean, sd = self.sync.answer(_sending(gpus, nodes, most, batch))
        sync_s = np.where(gpus > 1, np.exp(mean - self.hope * sd), self.alone_s)
        return compute_s, sync_s


def fit(steps: Sequence[StepMeasurement], hope: float = HOPE) -> StepTimeModel:
    """Fit the model to at least one measurement. Raises InputError."""
    if not steps:
        raise InputError("steps", "none: at least one config has to be measured")
    latest = list(steps)[-MOST_POINTS:]
    rows = np.array(
        [(s.gpus, s.nodes, s.most, s.local, s.compute_s, s.sync_s) for s in latest], dtype=float
    )
    if not (np.isfinite(rows).all() and (rows[:, :5] > 0).all() and (rows[:, 5] >= 0).all()):
        raise InputError("steps", f"expected finite numbers, above 0 but sync_s: {latest}")
    local0 = float(rows[:, 3].min())
    fixed, compute = _computed(rows, local0)
    alone = rows[rows[:, 0] == 1, 5]
    return StepTimeModel(
        local0=local0,
        fixed=fixed,
        compute=compute,
        sync=_sent(rows, local0, float(compute.terms[0])),
        hope=hope,
        alone_s=float(alone.mean()) if len(alone) else 0.0,
    )


def _computed(rows: Array, local0: float) -> tuple[float, Regression]:
    """The likeliest fixed share, and the regression under it."""
    batch, logs = rows[:, 3] / local0, np.log(rows[:, 4])
    at = _computing(rows[:, 2], batch)
    fits = []
    for fixed in FIXED:
        values = logs - np.log(fixed + (1 - fixed) * batch)
        terms = np.array([values.mean(), DEFAULT_TERMS["kappa"][0], 0.0])
        regression, chance = regress(at, values, terms, COMPUTING, RESIDUAL_SD)
        fits.append((chance + _fixed_chance(float(fixed)), float(fixed), regression))
    _, fixed, regression = max(fits, key=lambda each: each[0])
    return fixed, regression


def _fixed_chance(fixed: float) -> float:
    """Log chance of a fixed share before anything is measured."""
    middle, wide = DEFAULT_TERMS["logit_fixed"]
    return -0.5 * float((np.log(fixed / (1 - fixed)) - middle) / wide) ** 2


def _computing(most: Array, batch: Array) -> Array:
    return np.stack([np.ones_like(batch), np.log(most), np.log(batch)], axis=1)


SENDING = ("log_one_node", "rho", "log_several", "nu", "eta", "beta")


def _sending(gpus: Array, nodes: Array, most: Array, batch: Array) -> Array:
    several = nodes > 1
    one = ~several
    columns = (
        one,
        one * np.log(np.maximum(gpus - 1, 1)),
        several,
        several * np.log(np.maximum(nodes - 1, 1)),
        several * np.log(most),
        np.log(batch),
    )
    return np.stack(columns, axis=1).astype(float)


def _sent(rows: Array, local0: float, log_t0: float) -> Regression:
    """Synchronising, where more than one GPU was measured; else the prior."""
    means, sds = np.array([DEFAULT_TERMS[term] for term in SENDING]).T
    sds[5] = BATCH_SD
    means = means + log_t0 * np.array([1, 0, 1, 0, 0, 0])
    covariance = np.diag(sds**2)
    covariance[0, 2] = covariance[2, 0] = SAME * sds[0] * sds[2]
    many = rows[rows[:, 0] > 1]
    at = _sending(many[:, 0], many[:, 1], many[:, 2], many[:, 3] / local0)
    return regress(
        at, np.log(np.maximum(many[:, 5], LEAST_S)), means, covariance, SYNC_RESIDUAL_SD
    )[0]
