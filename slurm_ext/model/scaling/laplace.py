"""Fits one prior: the most probable terms, and a normal approximation around them (Laplace)."""

from dataclasses import dataclass

import numpy as np

from slurm_ext.model.arrays import Array
from slurm_ext.model.scaling.prior import TermPrior
from slurm_ext.model.scaling.similarity import (
    BATCH_HALF,
    LAYOUT_HALF,
    ResidualPrior,
    residual_prior,
)
from slurm_ext.model.scaling.terms import log_step, slopes

ROUNDS = 60
SETTLED = 1e-7  # of the objective, relative
STUCK = 1e8  # damping
DOUBT = 6.0  # measurements that the prior's own residual sds count for


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class StepObservations:
    """Log steps measured at rows of columns(), under one prior."""

    prior: TermPrior
    at: Array
    steps: Array  # less the residuals expected from other trainings
    log_batch0: float
    residuals: ResidualPrior
    trust: Array  # inverse covariance of the terms


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class LaplaceFit:
    """A prior with scaled residuals, fitted to observations."""

    observations: StepObservations
    scale: Array
    terms: Array
    spread: Array
    solved: Array  # inverse covariance of the measurements
    weights: Array
    slopes: Array
    surprise: float  # factor on all sds: size of the residuals against the prior's


def observe(prior: TermPrior, at: Array, steps: Array) -> StepObservations:
    """Combine measurements with a prior, before any fit."""
    residuals = residual_prior(prior.own, prior.others, at, at)
    batch0 = float(at[:, 0].min()) if prior.log_batch0 is None else prior.log_batch0
    return StepObservations(
        prior=prior,
        at=at,
        steps=steps - residuals.expected,
        log_batch0=batch0,
        residuals=residuals,
        trust=np.asarray(np.linalg.inv(prior.covariance), dtype=np.float64),
    )


def laplace_fit(observed: StepObservations, scale: Array, initial_terms: Array) -> LaplaceFit:
    """The most probable terms from `initial_terms` on."""
    noise = (scale[2] * observed.prior.noise_sd) ** 2
    solved = np.linalg.inv(observed.residuals.covariance(scale) + noise * np.eye(len(observed.at)))
    terms = _most_probable(observed, solved, initial_terms)
    here = slopes(terms, observed.at, observed.log_batch0)
    off = observed.steps - log_step(terms, observed.at, observed.log_batch0)
    pull = (terms - observed.prior.means)[1:]  # the length of a step is no surprise
    missed = float(off @ solved @ off + pull @ observed.trust[1:, 1:] @ pull)
    return LaplaceFit(
        observations=observed,
        scale=scale,
        terms=terms,
        spread=np.asarray(np.linalg.inv(here.T @ solved @ here + observed.trust), dtype=np.float64),
        solved=solved,
        weights=solved @ off,
        slopes=here,
        surprise=float(np.sqrt((DOUBT + missed) / (DOUBT + len(observed.at)))),
    )


def initial_terms(observed: StepObservations) -> Array:
    """The prior's means, at the measured length of a step."""
    terms = observed.prior.means.copy()
    terms[0] += np.median(observed.steps - log_step(terms, observed.at, observed.log_batch0))
    return terms


def log_marginals(observed: StepObservations, terms: Array, scales: Array) -> Array:
    """Log likelihood of the measurements under each scale, the model made linear at `terms`."""
    here = slopes(terms, observed.at, observed.log_batch0)
    off = observed.steps - log_step(terms, observed.at, observed.log_batch0)
    off = off + here @ (terms - observed.prior.means)
    fixed = here @ observed.prior.covariance @ here.T
    noise = observed.prior.noise_sd**2 * np.eye(len(off))
    every = np.stack(
        [observed.residuals.covariance(scale) + scale[2] ** 2 * noise for scale in scales]
    )
    values, vectors = np.linalg.eigh(every + fixed)
    values = np.maximum(values, 1e-9)
    turned = np.einsum("sij,i->sj", vectors, off)
    return np.asarray(-0.5 * (turned**2 / values + np.log(values)).sum(1), dtype=np.float64)


def predict(fitted: LaplaceFit, at: Array, residuals: ResidualPrior) -> tuple[Array, Array]:
    """Mean and variance of the log step at each row; `found` lies between them and the evidence."""
    observed, prior = fitted.observations, fitted.observations.prior
    cross = residuals.covariance(fitted.scale)
    lever = slopes(fitted.terms, at, observed.log_batch0) - cross @ fitted.solved @ fitted.slopes
    halves = fitted.scale[:2] ** 2 @ _own(prior)
    left = residuals.alone + halves - ((cross @ fitted.solved) * cross).sum(1)
    variance = np.maximum(left, 0) + ((lever @ fitted.spread) * lever).sum(1)
    variance = variance + (fitted.scale[2] * prior.noise_sd) ** 2
    mean = (
        log_step(fitted.terms, at, observed.log_batch0)
        + residuals.expected
        + cross @ fitted.weights
    )
    return mean, fitted.surprise**2 * variance


def _own(prior: TermPrior) -> Array:
    return np.array([prior.own @ np.array(BATCH_HALF), prior.own @ np.array(LAYOUT_HALF)])


def _most_probable(observed: StepObservations, solved: Array, terms: Array) -> Array:
    """Levenberg-Marquardt from `terms`."""
    best, damping = _misfit(observed, solved, terms), 1e-2
    for _ in range(ROUNDS):
        here = slopes(terms, observed.at, observed.log_batch0)
        off = observed.steps - log_step(terms, observed.at, observed.log_batch0)
        bend = here.T @ solved @ here + observed.trust
        pull = here.T @ solved @ off - observed.trust @ (terms - observed.prior.means)
        step = np.linalg.solve(bend + damping * np.diag(np.diag(bend)), pull)
        value = _misfit(observed, solved, terms + step)
        if value < best:
            settled = best - value < SETTLED * (1 + best)
            terms, best, damping = terms + step, value, damping / 3
        else:
            settled = damping > STUCK
            damping *= 4
        if settled:
            break
    return terms


def _misfit(observed: StepObservations, solved: Array, terms: Array) -> float:
    off = observed.steps - log_step(terms, observed.at, observed.log_batch0)
    pull = terms - observed.prior.means
    return float(off @ solved @ off + pull @ observed.trust @ pull)
