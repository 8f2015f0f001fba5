"""The search over placements: within what there is, and never worse than where it starts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.core.errors import InputError
from slurm_ext.policy.elastic.genetic_search import Problem, matrix, scores, search, speeds
from slurm_ext.policy.elastic.gpu_division import divide

NODES, PER_NODE = 4, 4
GPUS = NODES * PER_NODE


def a_problem(jobs: int, interference: float = 0.0, seed: int = 0, spread: float = 0.0) -> Problem:
    """Speedups are powers of GPUs, less for each node more than needed."""
    power = np.random.default_rng(seed).uniform(0.4, 0.95, jobs)[:, None, None]
    gpus, nodes = np.arange(GPUS + 1.0)[:, None], np.arange(NODES + 1)[None, :]
    speedup = gpus**power * (1 - spread * (nodes > np.ceil(gpus / PER_NODE)))
    speedup = np.where((nodes >= 1) & (nodes <= gpus), speedup, 0.0)
    return Problem(speedup=speedup, nodes=NODES, per_node=PER_NODE, interference=interference)


def one_each(jobs: int) -> np.ndarray:
    """A GPU for every job."""
    return matrix([{job % NODES: 1} for job in range(jobs)], NODES)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(0, 99), st.sampled_from([0.0, 0.5]))
def test_what_is_found_fits_and_is_no_worse(jobs: int, seed: int, interference: float) -> None:
    """No node gives more than it has, nobody who had GPUs is left without."""
    problem = a_problem(jobs, interference, seed)
    start = one_each(jobs)
    rng = np.random.default_rng(seed)
    found, score = search(problem, [start], rng, lambda generation, _: generation == 5)
    assert (found >= 0).all()
    assert (found.sum(axis=0) <= PER_NODE).all()
    assert (found.sum(axis=1) >= 1).all()
    assert score >= scores(problem, start[None])[0]
    assert score == pytest.approx(scores(problem, found[None])[0])


def test_it_comes_to_the_optimum_where_there_is_one_to_compare() -> None:
    """Speed by size alone: within one per cent of the division, from one GPU a job."""
    problem = a_problem(8)
    sizes = tuple(range(1, GPUS + 1))
    utility = -1 / problem.speedup[:, 1:, :].max(axis=2)
    best = utility[np.arange(8), divide(utility, sizes, GPUS)].sum()
    problem = replace(problem, speedup=problem.speedup.max(axis=2, keepdims=True).repeat(5, axis=2))
    rng = np.random.default_rng(0)
    _, score = search(problem, [one_each(8)], rng, lambda generation, _: generation == 100)
    assert best / score >= 0.99


def test_two_of_several_nodes_on_one_node_disturb_each_other() -> None:
    """Half their speed is gone; a neighbour on that node alone disturbs nobody."""
    problem = a_problem(3, interference=0.5)
    crossing = matrix([{0: 2, 1: 2}, {1: 2, 2: 2}, {3: 4}], NODES)
    apart = matrix([{0: 2, 1: 2}, {2: 2, 3: 2}, {1: 2}], NODES)
    alone = speeds(replace(problem, interference=0.0), np.stack([crossing, apart]))
    told = speeds(problem, np.stack([crossing, apart]))
    assert told[0].tolist() == pytest.approx([alone[0, 0] / 2, alone[0, 1] / 2, alone[0, 2]])
    assert told[1].tolist() == pytest.approx(alone[1].tolist())


def test_it_leaves_a_shared_node() -> None:
    """From a start that disturbs, to one that does not."""
    problem = a_problem(2, interference=0.5)
    start = matrix([{0: 4, 1: 2}, {1: 2, 2: 4}], NODES)
    rng = np.random.default_rng(0)
    found, _ = search(problem, [start], rng, lambda generation, _: generation == 50)
    both = (found > 0).sum(axis=0) > 1
    several = (found > 0).sum(axis=1) > 1
    assert not (several.all() and both.any())


def test_moving_costs_a_restart() -> None:
    """A job that is elsewhere than now runs at what a restart leaves; a new one does not."""
    problem = replace(
        a_problem(2),
        current=matrix([{0: 2}, {}], NODES),
        kept=np.array([0.9, 0.9]),
    )
    there, moved = matrix([{0: 2}, {1: 2}], NODES), matrix([{1: 2}, {0: 2}], NODES)
    told = speeds(problem, np.stack([there, moved]))
    assert told[1, 0] == pytest.approx(0.9 * told[0, 0])
    assert told[1, 1] == told[0, 1]


def test_equal_seeds_find_equal_schedules() -> None:
    """A replay is what it was."""
    problem = a_problem(6, 0.5)
    found = [
        search(problem, [one_each(6)], np.random.default_rng(3), lambda n, _: n == 10)[0]
        for _ in range(2)
    ]
    assert (found[0] == found[1]).all()


def test_a_start_that_cannot_be_is_an_error() -> None:
    """None, another shape, or more than a node has."""
    problem, rng = a_problem(2), np.random.default_rng(0)
    for starts in ([], [one_each(3)], [matrix([{0: 3}, {0: 2}], NODES)]):
        with pytest.raises(InputError, match="evolution"):
            search(problem, starts, rng, lambda *_: True)
