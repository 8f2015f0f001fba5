"""Slow nodes are found by several users' runs, and healthy ones are not blamed."""

from math import log1p

import numpy as np
import pytest

from slurm_ext.model.node_speed.changes import (
    SLOW,
    changes,
    fair_sum,
    log_density,
    scores,
    slow_from,
    tail_of,
)
from slurm_ext.model.node_speed.residuals import LAST, NodeResidual, UnitRun, residuals
from slurm_ext.model.node_speed.slow import NODE_DAYS, UnitSpeeds, bound_of, unit_speeds

HOUR = 3600.0


def stream(
    count: int = 800,
    *,
    nodes: int = 8,
    users: int = 5,
    slow: str = "",
    by: float = 0.15,
    after: int = 300,
    sd: float = 0.03,
    liar: str = "",
) -> list[UnitRun]:
    """Runs of a training a user on nodes at random; `liar` alone sees `slow`, where given."""
    dice = np.random.default_rng(5)
    found = []
    for at in range(count):
        user, node = f"u{dice.integers(users)}", f"n{dice.integers(nodes)}"
        rate = 3.0 + dice.normal(0, sd)
        if node == slow and at >= after and liar in ("", user):
            rate -= log1p(by)
        found.append(UnitRun(at * HOUR, node, f"{user}/train", user, float(rate)))
    return found


def only_slow(speeds: UnitSpeeds) -> list[str]:
    """Names of those that are blamed."""
    return [one.unit for one in speeds.slow]


def test_a_node_that_becomes_slow_is_found_with_its_moment() -> None:
    """By how much, since when, and by how many users' runs."""
    found = unit_speeds(stream(slow="n3"))
    assert only_slow(found) == ["n3"]
    (one,) = found.slow
    assert one is found.units[0]
    assert one.low < 0.15 < one.high
    assert one.slower == pytest.approx(0.15, abs=0.03)
    assert one.since_s == pytest.approx(300 * HOUR, abs=30 * HOUR)
    assert one.users == 5


def test_healthy_nodes_are_not_blamed() -> None:
    """All are compared, and none stands out."""
    found = unit_speeds(stream())
    assert only_slow(found) == []
    assert len(found.units) == 8
    assert all(one.low < 0.02 and one.since_s is None for one in found.units)


def test_a_repaired_node_is_no_longer_slow() -> None:
    """The same test finds the way back."""
    runs = stream(slow="n3", after=100)
    repaired = [
        UnitRun(r.at_s, r.unit, r.training, r.user, r.log_rate + log1p(0.15))
        if r.unit == "n3" and r.at_s >= 400 * HOUR
        else r
        for r in runs
    ]
    assert only_slow(unit_speeds(runs)) == ["n3"]
    assert only_slow(unit_speeds(repaired)) == []


def test_one_user_blames_nobody() -> None:
    """However slow his records call a node, and however many there are."""
    assert only_slow(unit_speeds(stream(slow="n3", by=1.0, liar="u1"))) == []
    mostly = stream(3000, slow="n3", by=1.0, liar="u1")
    many = [r for r in mostly if r.user == "u1" or int(r.at_s / HOUR) % 4 == 0]
    assert only_slow(unit_speeds(many)) == []


def test_on_a_cluster_of_one_user_his_trainings_share_the_blame() -> None:
    """One training that is slow on a node is its own affair; several are the node's."""
    runs = stream(slow="n3", users=4)
    alone = [UnitRun(r.at_s, r.unit, r.training, "me", r.log_rate) for r in runs]
    assert only_slow(unit_speeds(alone)) == ["n3"]
    single = [UnitRun(r.at_s, r.unit, "train", "me", r.log_rate) for r in runs]
    assert only_slow(unit_speeds(single)) == []


def test_a_training_that_changes_everywhere_is_no_nodes_fault() -> None:
    """A new version at two thirds of the rate moves the level, not the nodes."""
    runs = [
        UnitRun(r.at_s, r.unit, r.training, r.user, r.log_rate - 0.4 * (r.at_s > 400 * HOUR))
        for r in stream()
    ]
    assert only_slow(unit_speeds(runs)) == []


def test_a_run_is_compared_with_other_nodes_alone() -> None:
    """Its residual is its distance from the median of the last runs elsewhere."""
    places = [("a", 1.0), ("b", 2.0), ("c", 3.0), ("a", 9.0)]
    runs = [UnitRun(at, unit, "t", "u", rate) for at, (unit, rate) in enumerate(places)]
    assert residuals(runs) == []  # of two nodes, nobody knows which one differs
    runs = [*runs, UnitRun(9, "d", "t", "u", 5.0)]
    (one,) = residuals(runs)
    assert (one.run.unit, one.value) == ("d", 5.0 - 2.5)


def test_a_level_forgets() -> None:
    """Only the last runs elsewhere count."""
    old = [UnitRun(at, f"n{at % 3}", "t", "u", 0.0) for at in range(30)]
    new = [UnitRun(30 + at, f"n{at % 3}", "t", "u", 5.0) for at in range(3 * LAST)]
    last = residuals([*old, *new, UnitRun(99, "x", "t", "u", 5.0)])[-1]
    assert last.value == 0.0


def test_nothing_is_said_of_nothing() -> None:
    """No run, or a node alone."""
    assert unit_speeds([]) == UnitSpeeds((), 0)
    assert unit_speeds([UnitRun(n, "n1", "t", "u", 1.0) for n in range(50)]).units == ()


def test_scores_are_log_ratios_of_likelihoods() -> None:
    """Zero half way between usual and slow, and bounded for what is far from both."""
    run = UnitRun(0, "n", "t", "u", 0)
    middle, slow, usual, far = scores(
        [NodeResidual(run, value, 0.03) for value in (-SLOW / 2, -SLOW, 0.0, -50.0)], 5.0
    )
    assert middle == pytest.approx(0, abs=1e-9)
    assert slow == pytest.approx(-usual)
    assert slow > 0
    assert 0 < far < 0.1


def test_the_density_is_one() -> None:
    """It adds up over all values."""
    at = np.linspace(-400, 400, 400_001)
    assert np.trapezoid(np.exp(log_density(at, 3.0)), at) == pytest.approx(1, abs=1e-3)


def test_heavy_tails_are_seen() -> None:
    """Of normal noise, and of Student's t."""
    dice = np.random.default_rng(1)
    assert tail_of(dice.standard_normal(4000)) >= 15
    assert tail_of(dice.standard_t(3, 4000)) <= 5
    assert tail_of(np.array([])) > 0


def test_changes_go_there_and_back() -> None:
    """Each with the run that it began with and the one that showed it."""
    owners = ["a", "b", "c"] * 10
    added = [-1.0] * 6 + [1.0] * 12 + [-1.0] * 12
    found = [(one.start, one.shown, one.slow) for one in changes(owners, added, 3.0)]
    assert found == [(6, 8, True), (18, 20, False)]
    assert slow_from(owners, added, 3.0) is None
    assert slow_from(owners[:18], added[:18], 3.0) == 6


def test_a_share_is_what_blame_is_capped_by() -> None:
    """Two owners are no three, and one that adds more than both others counts as one of them."""
    assert fair_sum(["a", "b"], [50.0, 50.0]) == 0
    assert fair_sum(["a", "b", "c"], [50.0, 2.0, 2.0]) == pytest.approx(6.0, abs=0.01)
    assert fair_sum(["a", "b", "c", "d"], [5.0, 5.0, 5.0, -50.0]) == pytest.approx(10.0, abs=0.01)


def test_the_bound_follows_the_runs_of_a_node_day() -> None:
    """A hundred times the runs is another log of a hundred; fewer than one a day is one."""
    run = NodeResidual(UnitRun(0, "n", "t", "u", 0), 0.0, 1.0)
    last = NodeResidual(UnitRun(10 * 86400.0, "n", "t", "u", 0), 0.0, 1.0)
    few, many = [run, last], [run] * 999 + [last]
    assert bound_of(few, 1, NODE_DAYS) == pytest.approx(np.log(1000))
    assert bound_of(many, 1, NODE_DAYS) == pytest.approx(np.log(1000 * 100))
    assert bound_of([], 0, NODE_DAYS) == pytest.approx(np.log(1000))
