"""The genetic search on small examples: each rule with its bounds, dice where it throws."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.policy.elastic import genetic_search
from slurm_ext.policy.elastic.genetic_search import (
    NEVER,
    POPULATION,
    Problem,
    matrix,
    scores,
    search,
    speeds,
)


class Dice:
    """A generator that throws what it is told, call by call."""

    def __init__(self, *throws: Any) -> None:
        self.throws = [np.asarray(throw) for throw in throws]

    def integers(self, *_: Any, **__: Any) -> Any:
        """The next throw."""
        return self.throws.pop(0)

    def random(self, _: Any) -> Any:
        """The next throw."""
        return self.throws.pop(0)


def flat_problem(jobs: int, nodes: int = 3, per_node: int = 4, **more: Any) -> Problem:
    """Speedup is the number of GPUs, wherever they are."""
    gpus = np.arange(nodes * per_node + 1.0)
    speedup = np.broadcast_to(gpus[None, :, None], (jobs, len(gpus), nodes + 1)).copy()
    return Problem(speedup=speedup, nodes=nodes, per_node=per_node, **more)


def test_the_score_is_what_all_have_to_wait() -> None:
    """Minus the sum of weight / speedup; a job without GPUs costs a million of its weights."""
    assert (POPULATION, NEVER) == (64, 1e6)
    problem = flat_problem(2)
    schedules = np.stack([matrix([{0: 4}, {1: 2}], 3), matrix([{0: 4}, {}], 3)])
    assert scores(problem, schedules).tolist() == [-0.75, -0.25 - 1e6]
    weighted = replace(problem, weights=np.array([2.0, 3.0]))
    assert scores(weighted, schedules).tolist() == [-2.0, -0.5 - 3e6]
    creeping = replace(problem, speedup=problem.speedup * 1e-9)
    assert scores(creeping, schedules)[0] == -2e6


def test_only_jobs_of_several_nodes_disturb_each_other() -> None:
    """Two of them on one node; by the share that the problem says."""
    problem = flat_problem(3, interference=0.25)
    crossing = matrix([{0: 1, 1: 1}, {1: 2, 2: 2}, {1: 1}], 3)
    apart = matrix([{0: 1, 1: 1}, {2: 2}, {1: 1}], 3)
    assert speeds(problem, np.stack([crossing, apart])).tolist() == [
        [1.5, 3.0, 1.0],
        [2.0, 2.0, 1.0],
    ]


def test_uneven_jobs_do_not_run_where_slurm_asks_for_even_ones() -> None:
    """As many GPUs of each of a job's nodes, or a speed of 0."""
    schedules = matrix([{0: 1, 1: 3}, {0: 2, 2: 2}, {1: 1}], 3)[None]
    assert speeds(flat_problem(3, even=True), schedules).tolist() == [[0.0, 4.0, 1.0]]
    assert speeds(flat_problem(3), schedules).tolist() == [[4.0, 4.0, 1.0]]


def test_a_restart_is_paid_by_who_had_gpus_and_is_elsewhere() -> None:
    """Even if it was a single one."""
    problem = flat_problem(
        3, current=matrix([{0: 1}, {1: 2}, {}], 3), kept=np.array([0.5, 0.25, 0.1])
    )
    moved = matrix([{1: 1}, {1: 2}, {2: 4}], 3)[None]
    assert speeds(problem, moved).tolist() == [[0.5, 2.0, 4.0]]
    assert speeds(replace(problem, kept=None), moved).tolist() == [[1.0, 2.0, 4.0]]


def put(free: Sequence[int], size: int, *, even: bool = False) -> list[int]:
    """GPUs by node that a second job of this size gets beside the first."""
    problem = flat_problem(2, even=even)
    kids = np.array([[[4 - left for left in free], [0, 0, 0]]], dtype=np.int16)
    genetic_search._put(problem, kids, np.array([1]), np.array([size]))
    return [int(count) for count in kids[0, 1]]


@pytest.mark.parametrize(
    ("free", "size", "expected"),
    [
        ((4, 2, 3), 2, [0, 2, 0]),  # the tightest that holds it all
        ((4, 2, 3), 3, [0, 0, 3]),
        ((4, 2, 3), 4, [4, 0, 0]),
        ((4, 2, 3), 5, [4, 0, 1]),  # a whole node first, then the emptiest of the others
        ((4, 2, 3), 9, [4, 2, 3]),
        ((4, 2, 3), 12, [4, 2, 3]),  # no more than there is
        ((2, 1, 0), 3, [2, 1, 0]),  # nobody holds it all: the emptiest first
        ((4, 2, 3), 0, [0, 0, 0]),
    ],
)
def test_where_a_job_is_put(free: Sequence[int], size: int, expected: list[int]) -> None:
    """On nodes that hold it all, the tightest first; then on others, the emptiest first."""
    assert put(free, size) == expected


@pytest.mark.parametrize(
    ("free", "size", "expected"),
    [
        ((4, 2, 3), 6, [3, 0, 3]),
        ((4, 2, 3), 5, [0, 2, 2]),  # the odd one is not given
        ((4, 2, 3), 3, [0, 0, 3]),
        ((4, 2, 1), 6, [3, 0, 0]),  # the second node has no room for 3
        ((2, 1, 0), 3, [0, 0, 0]),
    ],
)
def test_where_a_job_of_even_nodes_is_put(
    free: Sequence[int], size: int, expected: list[int]
) -> None:
    """On as few nodes as it needs, as many of each."""
    assert put(free, size, even=True) == expected


def test_new_sizes() -> None:
    """As before, double, half, one more, one less, whole nodes, anything, and all that is left."""
    problem = flat_problem(1)
    rows = np.arange(8)
    held, most = np.full(8, 5), np.full(8, 11)
    dice: Any = Dice(np.full(8, 2), np.full(8, 7), rows)
    sizes = genetic_search._sizes(dice, held, most, problem)
    assert sizes.tolist() == [5, 10, 3, 6, 4, 8, 7, 11]
    dice = Dice(np.full(8, 2), np.full(8, 7), rows)
    sizes = genetic_search._sizes(dice, held, np.array([3, 3, 9, 0, 9, 9, 9, 9]), problem)
    assert sizes.tolist() == [3, 3, 3, 0, 4, 8, 7, 9]
    dice = Dice(np.full(8, 1), np.full(8, 1), rows)
    sizes = genetic_search._sizes(dice, np.zeros(8, int), np.full(8, 2), problem)
    assert sizes.tolist() == [1, 1, 1, 1, 1, 2, 1, 2]


def test_children_have_the_better_of_two_parents_for_each_job() -> None:
    """The first half are copies of one parent; of the others each job is of either."""
    population = np.arange(3, dtype=np.int16)[:, None, None] * np.ones((1, 2, 1), dtype=np.int16)
    marks = np.array([-3.0, -1.0, -2.0])  # the best is 1, then 2, then 0
    ranks = np.zeros((2, 2, POPULATION), dtype=int)
    ranks[0, 0], ranks[1, 0] = 2, 1  # the first parent: the better is the second best
    ranks[0, 1], ranks[1, 1] = 0, 2  # the second parent: the best
    takes = np.tile([0.49, 0.5], (POPULATION, 1))
    dice: Any = Dice(ranks, takes)
    kids = genetic_search._crossed(population, marks, dice)
    half = POPULATION // 2
    assert kids[:half, :, 0].tolist() == [[2, 2]] * half
    assert kids[half:, :, 0].tolist() == [[2, 1]] * (POPULATION - half)


def test_the_best_are_kept_and_copies_only_where_there_is_room() -> None:
    """Of equal scores one first; best first."""
    marks = np.array([-2.0, -1.0, -2.0, -1.0 - 1e-12, -3.0])
    kept = genetic_search._best_distinct(marks).tolist()
    assert len(kept) == 5
    assert sorted(kept) == [0, 1, 2, 3, 4]
    assert [round(float(marks[at])) for at in kept] == [-1, -2, -3, -1, -2]
    many = -np.arange(100.0)
    assert genetic_search._best_distinct(many).tolist() == list(range(64))
    copies = -(np.arange(200) % 3).astype(
        np.float64
    )  # three scores: the first copies of the best fill the rest
    best = [at for at in range(200) if at % 3 == 0]
    assert genetic_search._best_distinct(copies).tolist() == [0, 1, 2, *best[1:62]]


def test_repair_takes_from_who_comes_later() -> None:
    """In the order that the dice say; what fits is left as it is."""
    problem = flat_problem(2, nodes=2)
    kids = np.array([[[3, 1], [3, 3]], [[3, 1], [3, 3]]], dtype=np.int16)
    dice: Any = Dice([[0.1, 0.9], [0.9, 0.1]])
    repaired = genetic_search._repaired(problem, kids, dice)
    assert repaired.tolist() == [[[3, 1], [1, 3]], [[1, 1], [3, 3]]]
    crowd = np.array([[[3], [3], [2]]], dtype=np.int16)
    dice = Dice([[0.1, 0.2, 0.3]])
    repaired = genetic_search._repaired(flat_problem(3, nodes=1), crowd, dice)
    assert repaired.tolist() == [[[3], [1], [0]]]


def test_a_job_without_gpus_gets_some_in_each_child() -> None:
    """While one is free nobody else loses its last; no node gives more than it has."""
    problem = flat_problem(4, nodes=2)
    full = matrix([{0: 4}, {1: 2}, {1: 1}, {}], 2)
    kids = genetic_search._mutated(problem, np.stack([full] * POPULATION), np.random.default_rng(0))
    assert (kids.sum(axis=2) >= 1).all()
    assert (kids.sum(axis=1) <= 4).all()
    changed = (kids != full).any(axis=2)
    assert (changed.sum(axis=1) <= 2).all()
    assert changed[:, 3].all()


def test_generations_are_counted_from_none() -> None:
    """`enough` is asked before the first; then the best start is the answer."""
    problem, calls = flat_problem(1), []

    def enough(generation: int, score: float) -> bool:
        calls.append((generation, score))
        return generation >= 2

    starts = [matrix([{0: 1}], 3), matrix([{0: 4}], 3)]
    search(problem, starts, np.random.default_rng(0), enough)
    assert [generation for generation, _ in calls] == [0, 1, 2]
    assert all(score >= -0.25 for _, score in calls)
    found, score = search(problem, [starts[1]] * 70, np.random.default_rng(0), lambda *_: True)
    assert (found.tolist(), score) == ([[4, 0, 0]], -0.25)


@pytest.mark.parametrize(
    ("starts", "why"),
    [
        ([], "expected at least one schedule to start from"),
        ([matrix([{0: 1}], 2)], r"a start is \(1, 2\): expected jobs x nodes"),
        ([matrix([{0: -1}], 3)], "a start gives GPUs that are not there"),
        ([matrix([{0: 5}], 3)], "a start gives GPUs that are not there"),
    ],
)
def test_why_a_search_cannot_start(starts: list[Any], why: str) -> None:
    """Said in the message; a full node is no fault."""
    with pytest.raises(InputError, match=why):
        search(flat_problem(1), starts, np.random.default_rng(0), lambda *_: True)
    search(flat_problem(1), [matrix([{0: 4}], 3)], np.random.default_rng(0), lambda *_: True)
