"""The shape that is tried first: what it may save, within the deadline."""

import numpy as np
import pytest

from slurm_ext.policy.node_shapes import PricedShape, RatedShape, TrainingGoal, choose_nodes
from slurm_ext.policy.shape_trials import LEAST_SAVING, ShapeTrial, next_trial
from tests.policy.test_node_shapes import HOUR, QUICK, SLOW, WORK, shape


def tried(shapes: list[RatedShape], goal: TrainingGoal) -> tuple[ShapeTrial | None, PricedShape]:
    """The trial, and the best choice without it."""
    choice = choose_nodes(shapes, goal)
    assert choice.cheapest is not None
    return next_trial(choice.every, goal, choice.cheapest), choice.cheapest


def test_a_saving_is_the_mean_over_what_a_shape_may_cost() -> None:
    """As drawing its time many times has it: nothing where it is late, or dearer than the best."""
    goal = TrainingGoal(samples=WORK, deadline_s=6 * HOUR)
    found, best = tried([QUICK, shape("risky", 170, 2.4, sure=1.6)], goal)
    assert found is not None
    assert (best.shape, found.shape.shape.node.name) == (QUICK, "risky")
    dice = np.random.default_rng(0)
    times = found.shape.time_s * np.exp(dice.normal(0, found.shape.log_sd, 400_000))
    costs = times / HOUR * 2.4
    better = (times <= 6 * HOUR) & (costs < best.expected_cost)
    assert found.chance == pytest.approx(better.mean(), abs=0.005)
    saving = ((best.expected_cost - costs) * better).mean() / best.expected_cost
    assert found.saving == pytest.approx(saving, abs=0.005)


def test_what_cannot_be_better_is_not_tried() -> None:
    """Every rate is known, or saves less than a trial is worth."""
    assert tried([SLOW, QUICK], TrainingGoal(samples=WORK))[0] is None
    dear = shape("dear", 100, 9.0, sure=1.2)
    assert tried([SLOW, dear], TrainingGoal(samples=WORK))[0] is None
    assert LEAST_SAVING > 0


def test_where_none_is_sure_the_likeliest_is_tried() -> None:
    """With its chance, and without a saving; of nothing there is no trial."""
    goal = TrainingGoal(samples=WORK, deadline_s=5 * HOUR)
    risky = shape("risky", 220, 1.0, sure=1.5)
    choice = choose_nodes([risky, SLOW], goal)
    found = next_trial(choice.every, goal, choice.cheapest)
    assert found is not None
    assert (found.shape.shape, found.saving) == (risky, None)
    assert 0.5 < found.chance < 1
    assert next_trial((), goal, None) is None


def test_nodes_that_cost_nothing_are_tried_for_their_time_alone() -> None:
    """They save the whole cost if they are in time; nothing is saved on what is free already."""
    goal = TrainingGoal(samples=WORK, deadline_s=6 * HOUR)
    free = shape("free", 170, 0.0, sure=1.6)
    choice = choose_nodes([QUICK, free], goal)
    dear = next(one for one in choice.every if one.shape is QUICK)
    found = next_trial(choice.every, goal, dear)
    assert found is not None
    assert found.saving == pytest.approx(found.chance)
    nothing = next(one for one in choice.every if one.shape is free)
    assert next_trial(choice.every, goal, nothing) is None
