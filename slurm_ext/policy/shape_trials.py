"""The shape to try for some minutes before a training is placed: the largest expected saving. Pure.

Of a shape whose cost is log-normal, expected improvement on the best choice so far (Jones, Schonlau
and Welch, Journal of Global Optimization 13, 1998), counted only where the deadline is met:

    saving = E[(best - cost) * (cost < best and time <= deadline)]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import erf, exp, inf, log, sqrt

from slurm_ext.policy.node_shapes import PricedShape, TrainingGoal

LEAST_SAVING = 0.01  # of the best choice's cost: less is worth no trial


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeTrial:
    """A shape that is worth a trial."""

    shape: PricedShape
    chance: float  # to be in time, and cheaper than the best choice so far
    saving: float | None  # expected share of its cost; None: none is sure to be in time


def next_trial(
    every: Sequence[PricedShape], goal: TrainingGoal, best: PricedShape | None
) -> ShapeTrial | None:
    """The trial that saves most, or the likeliest in time where none is sure to be."""
    if best is None:
        return _likeliest(every, goal)
    if not best.cost:
        return None  # nothing is cheaper
    bound = inf if goal.deadline_s is None else goal.deadline_s
    trials = [_trial(shape, bound, best) for shape in every if shape is not best]
    trial = max(trials, key=lambda shape: shape.saving or 0.0, default=None)
    return trial if trial is not None and (trial.saving or 0.0) >= LEAST_SAVING else None


def _likeliest(every: Sequence[PricedShape], goal: TrainingGoal) -> ShapeTrial | None:
    if not every or goal.deadline_s is None:
        return None
    bound = goal.deadline_s
    shape = max(every, key=lambda candidate: (candidate.chance(bound), -candidate.cost))
    return ShapeTrial(shape=shape, chance=shape.chance(bound), saving=None)


def _trial(shape: PricedShape, bound_s: float, best: PricedShape) -> ShapeTrial:
    cheaper = best.expected_cost / shape.cost if shape.cost else inf  # up to so many times as long
    reach = log(min(bound_s / shape.time_s, cheaper)) / shape.log_sd
    chance = _normal(reach)
    mean = shape.cost * exp(shape.log_sd**2 / 2) * _normal(reach - shape.log_sd)
    saving = chance - mean / best.expected_cost
    return ShapeTrial(shape=shape, chance=chance, saving=saving)


def _normal(at: float) -> float:
    return 0.5 * (1 + erf(at / sqrt(2)))
