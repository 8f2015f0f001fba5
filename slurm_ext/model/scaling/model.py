"""Throughput of a data-parallel training over GPUs, nodes and batch, from a few measurements.

The terms of terms.py are fitted under a prior (normal, in logs), and a Gaussian process
(similarity.py) carries the residuals of the measurements to similar configs. One measurement is
enough for a prediction, and each further one narrows the interval. Several components of the prior
are weighted by how well each predicted the measurements.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from slurm_ext.core.errors import InputError
from slurm_ext.core.records import Interval
from slurm_ext.model.arrays import Array
from slurm_ext.model.scaling.laplace import (
    LaplaceFit,
    StepObservations,
    initial_terms,
    laplace_fit,
    log_marginals,
    observe,
    predict,
)
from slurm_ext.model.scaling.prior import BEYOND, INSIDE, ScalingPrior, default_prior
from slurm_ext.model.scaling.similarity import residual_prior
from slurm_ext.model.scaling.terms import TrainingConfig, columns, log_step, parts

MOST_MEMBERS = 5  # the rest would hardly count

__all__ = ["ScalingMeasurement", "ScalingModel", "Shares", "TrainingConfig", "fit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingMeasurement:
    """Throughput measured at one config, in samples/s of the whole job."""

    config: TrainingConfig
    samples_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Parts of a step's time, adding up to 1: computing, and waiting for the network."""

    compute: float
    network: float


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ScalingModel:
    """A fitted training: predicts the rate at any config."""

    prior: ScalingPrior
    at: Array  # columns() of the measurements
    members: tuple[tuple[float, LaplaceFit], ...]  # with their weights, which add up to 1

    def rate(self, config: TrainingConfig) -> tuple[float, Interval]:
        """Samples/s of the whole job at `config`, and the 90 % interval."""
        rates, lows, highs = self.rates([config])
        return float(rates[0]), Interval(float(lows[0]), float(highs[0]))

    def rates(self, configs: Sequence[TrainingConfig]) -> tuple[Array, Array, Array]:
        """Samples/s, and the interval's ends, of many configs."""
        at = columns([_checked(config) for config in configs])
        means, sds = self.log_steps(at)
        widths = [self.prior.width(len(self.at), stratum) for stratum in self.strata(at)]
        samples, half = np.log(at[:, 1]) + at[:, 0] - means, sds * np.array(widths)
        return np.exp(samples), np.exp(samples - half), np.exp(samples + half)

    def strata(self, at: Array) -> list[int]:
        """BEYOND where a row has more GPUs or nodes than any that was measured."""
        gpus, nodes = self.at[:, 1].max(), self.at[:, 2].max()
        return [BEYOND if row[1] > gpus or row[2] > nodes else INSIDE for row in at]

    def log_steps(self, at: Array) -> tuple[Array, Array]:
        """Mean and sd of the log seconds of a step, for each row of columns()."""
        residuals = {
            id(observed): residual_prior(observed.prior.own, observed.prior.others, at, self.at)
            for observed in (member.observations for _, member in self.members)
        }
        predicted = [
            predict(member, at, residuals[id(member.observations)]) for _, member in self.members
        ]
        weights = np.array([weight for weight, _ in self.members])
        means = weights @ np.array([mean for mean, _ in predicted])
        spread = [variance + (mean - means) ** 2 for mean, variance in predicted]
        return means, np.sqrt(weights @ np.array(spread))

    def shares(self, config: TrainingConfig) -> Shares:
        """Share of a step at `config` that is network time not hidden by computing."""
        at, network = columns([_checked(config)]), 0.0
        for weight, member in self.members:
            compute, _, _ = parts(member.terms, at, member.observations.log_batch0)
            whole = log_step(member.terms, at, member.observations.log_batch0)
            network += weight * float(1 - np.exp(compute - whole)[0])
        return Shares(compute=1 - network, network=network)


def fit(points: Sequence[ScalingMeasurement], prior: ScalingPrior | None = None) -> ScalingModel:
    """Fit the scaling to one or more measurements. Raises InputError."""
    if not points:
        raise InputError("measurements", "none: at least one config has to be measured")
    prior = default_prior() if prior is None else prior
    at = columns([_measured(point).config for point in points])
    steps = np.log(at[:, 1]) + at[:, 0] - np.log([point.samples_per_s for point in points])
    every = [_weighed(observe(component, at, steps), prior) for component in prior.components]
    best = sorted((fit for some in every for fit in some), key=lambda fit: -fit[0])[:MOST_MEMBERS]
    total = np.exp([log - best[0][0] for log, *_ in best]).sum()
    members = tuple(
        (float(np.exp(log - best[0][0]) / total), laplace_fit(observed, scale, terms))
        for log, observed, scale, terms in best
    )
    return ScalingModel(prior=prior, at=at, members=members)


def _weighed(
    observed: StepObservations, prior: ScalingPrior
) -> list[tuple[float, StepObservations, Array, Array]]:
    """Log weight of each scale under one prior, and the terms to start from."""
    if len(prior.components) == len(prior.scales) == 1:
        return [(0.0, observed, prior.scales[0], initial_terms(observed))]
    middle = laplace_fit(observed, np.ones(3), initial_terms(observed)).terms
    logs = log_marginals(observed, middle, prior.scales) + np.log(prior.chances)
    return [
        (float(log), observed, scale, middle) for log, scale in zip(logs, prior.scales, strict=True)
    ]


def _measured(point: ScalingMeasurement) -> ScalingMeasurement:
    _checked(point.config)
    if not (isfinite(point.samples_per_s) and point.samples_per_s > 0):
        raise InputError(
            "measurements", f"samples_per_s = {point.samples_per_s!r}: expected a positive number"
        )
    return point


def _checked(config: TrainingConfig) -> TrainingConfig:
    if not (isfinite(config.local_batch) and config.local_batch > 0):
        raise InputError("config", f"local_batch = {config.local_batch!r}: expected above 0")
    if not 1 <= config.nodes <= config.gpus:
        raise InputError(
            "config", f"{config.gpus} GPUs on {config.nodes} nodes: expected at least one on each"
        )
    if config.placement and (
        sum(config.placement) != config.gpus
        or len(config.placement) != config.nodes
        or min(config.placement) < 1
    ):
        raise InputError("config", f"placement {config.placement} is not {config.gpus} GPUs")
    return config
