"""Importance sampling of a posterior: draws from a normal prior, weighted by their likelihood.

Adaptive importance sampling: each round proposes from a Student's t around what the rounds before
found, and every draw is weighted by the mixture of all proposals, so that none is wasted.
The generator is seeded: the same evidence always gives the same answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import lgamma, log, pi

import numpy as np

from slurm_ext.model.arrays import Array

ROUNDS = 3
DRAWS = 1500  # a round
TAILS = 5  # degrees of freedom of the proposals: heavier than a normal's
SPREAD = 1.2  # of a proposal's covariance over what was found
SEED = 11


@dataclass(frozen=True, slots=True)
class Draws:
    """Rows of parameters, and their weights, which add up to 1."""

    rows: Array
    weights: Array

    def mean(self) -> Array:
        """The weighted mean row."""
        return self.weights @ self.rows

    def covariance(self) -> Array:
        """The weighted covariance of the columns."""
        away = self.rows - self.mean()
        return (away * self.weights[:, None]).T @ away

    def quantile(self, values: Array, level: float) -> float:
        """The weighted quantile of one value a row."""
        order = np.argsort(values)
        below = np.cumsum(self.weights[order]) - 0.5 * self.weights[order]
        return float(np.interp(level, below, values[order]))


def draw(log_likelihood: Callable[[Array], Array], mean: Array, covariance: Array) -> Draws:
    """Draws from the normal prior times the likelihood, which takes and gives one value a row."""
    dice = np.random.default_rng(SEED)
    prior = _Normal(mean, _root(covariance))
    proposals: list[_Normal | _Student] = [prior]
    rows = np.empty((0, len(mean)))
    for _ in range(ROUNDS):
        rows = np.concatenate([rows, proposals[-1].draw(dice, DRAWS)])
        proposed = np.logaddexp.reduce([proposal.log_density(rows) for proposal in proposals])
        log_weights = log_likelihood(rows) + prior.log_density(rows) - proposed
        weights = np.exp(log_weights - log_weights.max())
        sample = Draws(rows, weights / weights.sum())
        proposals.append(_Student(sample.mean(), _root(SPREAD * sample.covariance())))
    return sample


def _root(covariance: Array) -> Array:
    least = 1e-6 * np.eye(len(covariance))  # a certainty still has a neighbourhood
    return np.asarray(np.linalg.cholesky(covariance + least), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Normal:
    mean: Array
    root: Array  # lower triangle whose square is the covariance

    def draw(self, dice: "np.random.Generator", count: int) -> Array:
        normal = dice.standard_normal((count, len(self.mean)))
        return self.mean + normal @ self.root.T

    def log_density(self, rows: Array) -> Array:
        squares, log_root = _distance(self.mean, self.root, rows)
        return -0.5 * (squares + len(self.mean) * log(2 * pi)) - log_root


@dataclass(frozen=True, slots=True)
class _Student:
    mean: Array
    root: Array

    def draw(self, dice: "np.random.Generator", count: int) -> Array:
        normal = dice.standard_normal((count, len(self.mean)))
        scale = np.sqrt(dice.chisquare(TAILS, (count, 1)) / TAILS)
        return np.asarray(self.mean + (normal / scale) @ self.root.T)

    def log_density(self, rows: Array) -> Array:
        size = len(self.mean)
        squares, log_root = _distance(self.mean, self.root, rows)
        top = lgamma((TAILS + size) / 2) - lgamma(TAILS / 2) - size / 2 * log(TAILS * pi)
        return np.asarray(top - (TAILS + size) / 2 * np.log1p(squares / TAILS) - log_root)


def _distance(mean: Array, root: Array, rows: Array) -> tuple[Array, float]:
    """Squared distances in units of the covariance, and the log of its root's determinant."""
    standard = np.linalg.solve(root, (rows - mean).T)
    return (standard**2).sum(0), float(np.log(np.diag(root)).sum())
