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
DOUBT = 6.0  # measurements' worth of trust in the belief's own idea of how far steps stray


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class StepObservations:
    """Log steps measured at rows of columns(), under one prior."""

    belief: TermPrior
    at: Array
    steps: Array  # less what the kin let expect
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
    surprise: float  # factor on all sds: how far measurements stray, against what was believed


def observe(belief: TermPrior, at: Array, steps: Array) -> StepObservations:
    """Combine measurements with a prior, before any fit."""
    found = residual_prior(belief.own, belief.kin, at, at)
    batch0 = float(at[:, 0].min()) if belief.log_batch0 is None else belief.log_batch0
    return StepObservations(
        belief=belief,
        at=at,
        steps=steps - found.expected,
        log_batch0=batch0,
        residuals=found,
        trust=np.asarray(np.linalg.inv(belief.covariance), dtype=np.float64),
    )


def laplace_fit(given: StepObservations, scale: Array, initial_terms: Array) -> LaplaceFit:
    """The most probable terms from `initial_terms` on."""
    noise = (scale[2] * given.belief.noise_sd) ** 2
    solved = np.linalg.inv(given.residuals.covariance(scale) + noise * np.eye(len(given.at)))
    terms = _most_probable(given, solved, initial_terms)
    here = slopes(terms, given.at, given.log_batch0)
    off = given.steps - log_step(terms, given.at, given.log_batch0)
    pull = (terms - given.belief.means)[1:]  # how long a step is surprises nobody
    missed = float(off @ solved @ off + pull @ given.trust[1:, 1:] @ pull)
    return LaplaceFit(
        observations=given,
        scale=scale,
        terms=terms,
        spread=np.asarray(np.linalg.inv(here.T @ solved @ here + given.trust), dtype=np.float64),
        solved=solved,
        weights=solved @ off,
        slopes=here,
        surprise=float(np.sqrt((DOUBT + missed) / (DOUBT + len(given.at)))),
    )


def initial_terms(given: StepObservations) -> Array:
    """The prior's means, at the measured length of a step."""
    terms = given.belief.means.copy()
    terms[0] += np.median(given.steps - log_step(terms, given.at, given.log_batch0))
    return terms


def log_marginals(given: StepObservations, terms: Array, scales: Array) -> Array:
    """Log likelihood of the measurements under each scale, the model made linear at `terms`."""
    here = slopes(terms, given.at, given.log_batch0)
    off = given.steps - log_step(terms, given.at, given.log_batch0)
    off = off + here @ (terms - given.belief.means)
    fixed = here @ given.belief.covariance @ here.T
    noise = given.belief.noise_sd**2 * np.eye(len(off))
    every = np.stack(
        [given.residuals.covariance(scale) + scale[2] ** 2 * noise for scale in scales]
    )
    values, vectors = np.linalg.eigh(every + fixed)
    values = np.maximum(values, 1e-9)
    turned = np.einsum("sij,i->sj", vectors, off)
    return np.asarray(-0.5 * (turned**2 / values + np.log(values)).sum(1), dtype=np.float64)


def predict(one: LaplaceFit, at: Array, found: ResidualPrior) -> tuple[Array, Array]:
    """Mean and variance of the log step at each row; `found` lies between them and the evidence."""
    given, belief = one.observations, one.observations.belief
    cross = found.covariance(one.scale)
    lever = slopes(one.terms, at, given.log_batch0) - cross @ one.solved @ one.slopes
    halves = one.scale[:2] ** 2 @ _own(belief)
    left = found.alone + halves - ((cross @ one.solved) * cross).sum(1)
    variance = np.maximum(left, 0) + ((lever @ one.spread) * lever).sum(1)
    variance = variance + (one.scale[2] * belief.noise_sd) ** 2
    mean = log_step(one.terms, at, given.log_batch0) + found.expected + cross @ one.weights
    return mean, one.surprise**2 * variance


def _own(belief: TermPrior) -> Array:
    return np.array([belief.own @ np.array(BATCH_HALF), belief.own @ np.array(LAYOUT_HALF)])


def _most_probable(given: StepObservations, solved: Array, terms: Array) -> Array:
    """Levenberg-Marquardt from `terms`."""
    best, damping = _misfit(given, solved, terms), 1e-2
    for _ in range(ROUNDS):
        here = slopes(terms, given.at, given.log_batch0)
        off = given.steps - log_step(terms, given.at, given.log_batch0)
        bend = here.T @ solved @ here + given.trust
        pull = here.T @ solved @ off - given.trust @ (terms - given.belief.means)
        step = np.linalg.solve(bend + damping * np.diag(np.diag(bend)), pull)
        value = _misfit(given, solved, terms + step)
        if value < best:
            settled = best - value < SETTLED * (1 + best)
            terms, best, damping = terms + step, value, damping / 3
        else:
            settled = damping > STUCK
            damping *= 4
        if settled:
            break
    return terms


def _misfit(given: StepObservations, solved: Array, terms: Array) -> float:
    off = given.steps - log_step(terms, given.at, given.log_batch0)
    pull = terms - given.belief.means
    return float(off @ solved @ off + pull @ given.trust @ pull)
