"""Elastic sizes and places on small examples: each rule with its bounds, dice where it throws."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.model.scaling.goodput import BatchLimits, GradientNoise
from slurm_ext.model.scaling.goodput_speed import StepMeasurement
from slurm_ext.policy.elastic import genetic_search, optimiser
from slurm_ext.policy.elastic.genetic_search import (
    NEVER,
    POPULATION,
    Problem,
    matrix,
    scores,
    search,
    speeds,
)
from slurm_ext.policy.elastic.gpu_division import (
    DivisionTerms,
    Utility,
    admitted,
    alone_s,
    divide,
    only,
    sizes_of,
    utilities,
    weights_of,
)
from slurm_ext.policy.elastic.optimiser import GpuBudget, divided, sizes_for
from slurm_ext.policy.elastic.placement import place
from slurm_ext.policy.elastic.utility import ElasticJob, GoodputReport, best_batches, utility_of

# -- the search --------------------------------------------------------------------------------


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


# -- the division ------------------------------------------------------------------------------

SIZES = (1, 2, 4)


def job(name: str, *goodput: float, **more: Any) -> Utility:
    """Goodput at each of SIZES."""
    fields: dict[str, Any] = {"held": 0, "left": 100.0, **more}
    return Utility(name=name, goodput=np.array(goodput, dtype=float), **fields)


def test_the_usual_terms() -> None:
    """Those that a figure of README rests on."""
    assert DivisionTerms() == DivisionTerms(
        gpus_a_job=2.0, restart_s=30.0, lasts_s=300.0, favour=1.5, adds_up=False
    )


@pytest.mark.parametrize(
    ("gpus", "per_node", "most", "sizes"),
    [
        (1, 1, 1, (1,)),
        (8, 8, 8, (1, 2, 4, 8)),
        (7, 8, 8, (1, 2, 4)),
        (12, 6, 6, (1, 2, 6)),
        (12, 6, 11, (1, 2, 6)),
        (9, 3, 9, (1, 3, 6, 9)),
    ],
)
def test_sizes_that_always_find_a_place(
    gpus: int, per_node: int, most: int, sizes: tuple[int, ...]
) -> None:
    """Powers of two that divide a node, then whole nodes."""
    assert sizes_of(gpus, per_node, most) == sizes


@pytest.mark.parametrize("wrong", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_sizes_of_nothing(wrong: tuple[int, int, int]) -> None:
    """Each number is named."""
    gpus, per_node, most = wrong
    with pytest.raises(InputError, match=f"{gpus} GPUs, {per_node} a node, at most {most}: expe"):
        sizes_of(*wrong)


def test_the_work_that_is_left_is_counted_on_the_smallest_size() -> None:
    """In GPU-seconds; a job that can have no size never ends."""
    assert alone_s(job("a", 2.0, 3.0, 4.0), SIZES) == 50.0
    assert alone_s(job("a", 0.0, 4.0, 5.0), SIZES) == 50.0
    assert alone_s(job("a", 0.0, 0.0, 0.0), SIZES) == np.inf


def test_admission_counts_jobs_and_gpus() -> None:
    """One for each 2 GPUs, at least one; by arrival and name where they are as short."""
    crowd = [job("b", 1, 2, 3), job("a", 1, 2, 3), job("c", 1, 2, 3, arrival_s=-1.0)]

    def names(gpus: int, **terms: Any) -> list[str]:
        return [kept.name for kept in admitted(crowd, SIZES, gpus, DivisionTerms(**terms))]

    assert names(1) == names(3) == ["c"]
    assert names(4) == names(5) == ["c", "a"]
    assert names(6) == ["c", "a", "b"]
    assert names(2, gpus_a_job=0.0) == ["c", "a"]
    assert names(3, gpus_a_job=0.0) == ["c", "a", "b"]
    assert names(0) == []
    large = [job("wide", 0, 0, 1, left=1.0), job("small", 1, 1, 1)]
    kept = admitted(large, SIZES, 3, DivisionTerms())
    assert [one.name for one in kept] == ["small"]
    assert [one.name for one in admitted(large, SIZES, 4, DivisionTerms())] == ["wide"]


def test_utilities_by_their_formula() -> None:
    """-weight / speedup; another size is worth what a restart leaves of the time that it lasts."""
    terms = DivisionTerms(restart_s=30.0, lasts_s=300.0, favour=0.0)
    held = job("a", 2.0, 4.0, 0.0, held=2, left=240.0)
    (row,) = utilities([held], SIZES, terms)
    assert row.tolist() == pytest.approx([-150 / 120, -0.5, -np.inf])  # 120 s on one GPU
    (row,) = utilities([replace(held, left=1e9)], SIZES, terms)
    assert row[0] == pytest.approx(-330 / 300)
    (row,) = utilities([replace(held, left=1.0)], SIZES, terms)
    assert row[0] == pytest.approx(-2.0)
    (row,) = utilities([replace(held, held=0)], SIZES, terms)
    assert row.tolist() == pytest.approx([-1.0, -0.5, -np.inf])
    (row,) = utilities([held], SIZES, replace(terms, adds_up=True))
    assert row.tolist() == pytest.approx([120 / 150, 2.0, -np.inf])


def test_shorter_jobs_weigh_more_by_rank() -> None:
    """The longest 1, the next 2^1.5; of equal ones the later in the list."""
    crowd = [job("a", 1, 1, 1, left=left) for left in (5.0, 50.0, 5.0, 500.0)]
    assert weights_of(crowd, SIZES, DivisionTerms()).tolist() == pytest.approx(
        [3**1.5, 2**1.5, 4**1.5, 1.0]
    )
    assert weights_of(crowd, SIZES, DivisionTerms(favour=0.0)).tolist() == [1.0] * 4


def test_bounds_of_an_owner_are_his_sizes() -> None:
    """Both belong to them."""
    whole = job("a", 1.0, 2.0, 3.0)
    assert only(whole, SIZES, 2, 4).goodput.tolist() == [0.0, 2.0, 3.0]
    assert only(whole, SIZES, 1, 2).goodput.tolist() == [1.0, 2.0, 0.0]
    assert only(whole, SIZES, 3, 3).goodput.tolist() == [0.0, 0.0, 0.0]


def test_gpus_are_enough_up_to_the_last() -> None:
    """One fewer is an error that names both."""
    table = np.array([[-1.0, -0.5], [-1.0, -0.9]])
    assert divide(table, (2, 3), 4).tolist() == [0, 0]
    assert divide(table, (2, 3), 5).tolist() == [1, 0]
    with pytest.raises(InputError, match="3 GPUs are too few for 2 jobs"):
        divide(table, (2, 3), 3)


# -- the optimiser -----------------------------------------------------------------------------


def test_nodes_of_a_budget_are_rounded_up() -> None:
    """On the last one others may have a part."""
    assert [GpuBudget(gpus=gpus, per_node=4).nodes for gpus in (4, 5, 8, 9)] == [1, 2, 2, 3]
    assert [optimiser._taken(GpuBudget(gpus=gpus, per_node=4)) for gpus in (4, 5, 7)] == [0, 3, 1]
    assert sizes_for("evolution", GpuBudget(gpus=12, per_node=4), 6) == (1, 2, 3, 4, 6)
    assert sizes_for("evolution", GpuBudget(gpus=6, per_node=4), 64) == (1, 2, 3, 4, 6)


def test_a_start_is_placed_the_largest_first_where_it_leaves_the_least() -> None:
    """Others' part comes last; none where a size is uneven or has no room."""

    def placed(sizes: list[int], gpus: int) -> list[list[int]] | None:
        found = optimiser._placed(sizes, GpuBudget(gpus=gpus, per_node=4))
        return None if found is None else found.tolist()

    assert placed([1, 3], 8) == [[1, 0], [3, 0]]
    assert placed([1, 2, 4], 8) == [[0, 1], [0, 2], [4, 0]]
    assert placed([2], 6) == [[0, 2], [0, 2]]
    assert placed([6, 1], 8) == [[3, 3], [1, 0]]
    assert placed([5], 8) is None
    assert placed([3, 3, 2], 8) is None
    assert placed([4, 4], 8) == [[4, 0], [0, 4]]


def test_the_search_has_the_division_s_objective() -> None:
    """Speed -1 / utility on as few nodes as a size needs; others' GPUs stay as they are."""
    utility = np.array([[-2.0, -1.0, -0.5], [-4.0, -np.inf, -0.25]])
    problem = optimiser._problem(utility, (1, 2, 6), GpuBudget(gpus=7, per_node=4))
    assert (problem.nodes, problem.per_node, problem.even, problem.jobs) == (2, 4, True, 3)
    expected = np.zeros((3, 9, 3))
    expected[0, 1, 1], expected[0, 2, 1], expected[0, 6, 2] = 0.5, 1.0, 2.0
    expected[1, 1, 1], expected[1, 6, 2] = 0.25, 4.0
    expected[2, 1, 1] = 1.0
    assert problem.speedup.tolist() == expected.tolist()
    alone = optimiser._problem(utility, (1, 2, 6), GpuBudget(gpus=8, per_node=4))
    assert alone.jobs == 2


@pytest.mark.parametrize(
    ("nodes", "jobs", "count"), [(10, 3, 100), (2000, 3, 83), (30000, 4, 5), (125, 40, 100)]
)
def test_generations_are_by_the_size_of_the_problem(
    nodes: int, jobs: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 5 to 100, so that seconds suffice; no clock."""
    asked: list[int] = []

    def fake(problem: Problem, starts: Any, rng: Any, enough: Any) -> tuple[Any, float]:
        asked.append(next(n for n in range(200) if enough(n, 0.0)))
        return starts[0], 0.0

    monkeypatch.setattr(optimiser, "search", fake)
    utility = np.full((jobs, 1), -1.0)
    budget = GpuBudget(gpus=4 * nodes, per_node=4)
    monkeypatch.setattr(optimiser, "_problem", lambda *_: _Size(jobs, nodes))
    monkeypatch.setattr(optimiser, "_by_programme", lambda *_: [1] * jobs)
    monkeypatch.setattr(optimiser, "_placed", lambda *_: np.ones((jobs, 1), dtype=np.int16))
    assert optimiser._by_evolution(utility, (1,), budget) == [1] * jobs
    assert asked == [count]


class _Size:
    def __init__(self, jobs: int, nodes: int) -> None:
        self.jobs, self.nodes = jobs, nodes


def test_an_optimiser_without_jobs_gives_nothing() -> None:
    """Of either name."""
    for name in ("dp", "evolution"):
        assert divided(name, [], SIZES, GpuBudget(gpus=4, per_node=4), DivisionTerms()) == {}


# -- placement ---------------------------------------------------------------------------------


def test_a_part_goes_where_it_leaves_the_least() -> None:
    """Of equal nodes the first; the largest part first, by name where they are as large."""
    held = {"x": {0: 1}, "y": {1: 2}}
    assert place({"x": 1, "y": 2, "a": 1}, held, 3, 4)["a"] == {1: 1}
    assert place({"x": 1, "y": 2, "a": 2}, held, 3, 4)["a"] == {1: 2}
    assert place({"b": 2, "a": 2, "c": 4}, {}, 2, 4) == {"c": {0: 4}, "a": {1: 2}, "b": {1: 2}}
    assert place({"a": 1, "b": 2}, {}, 2, 4) == {"b": {0: 2}, "a": {0: 1}}


def test_a_job_moves_if_its_place_is_not_the_right_one() -> None:
    """Another size, a node that is not there, or more nodes than it needs."""
    assert place({"a": 2}, {"a": {1: 2}}, 2, 4) == {"a": {1: 2}}
    assert place({"a": 2}, {"a": {1: 4}}, 2, 4) == {"a": {0: 2}}
    assert place({"a": 2}, {"a": {2: 2}}, 2, 4) == {"a": {0: 2}}
    assert place({"a": 2}, {"a": {-1: 2}}, 2, 4) == {"a": {0: 2}}
    assert place({"a": 2}, {"a": {0: 1, 1: 1}}, 2, 4) == {"a": {0: 2}}
    assert place({"a": 8}, {"a": {1: 4, 2: 4}}, 3, 4) == {"a": {1: 4, 2: 4}}


def test_the_emptiest_node_is_cleared_for_a_whole_one() -> None:
    """No more than are needed, and full nodes last."""
    held = {"a": {0: 2}, "b": {1: 1}, "c": {2: 4}}
    placed = place({"a": 2, "b": 1, "c": 4, "w": 4}, held, 3, 4)
    assert placed == {"a": {0: 2}, "c": {2: 4}, "w": {1: 4}, "b": {0: 1}}
    both = place({"a": 2, "b": 1, "w": 4}, {"a": {0: 2}, "b": {1: 1}}, 3, 4)
    assert (both["a"], both["b"], both["w"]) == ({0: 2}, {1: 1}, {2: 4})
    full = {"a": {0: 2}, "b": {0: 2}, "c": {1: 2}}
    assert place({"a": 2, "b": 2, "c": 2, "w": 4}, full, 3, 4)["w"] == {2: 4}
    two = place({"v": 8, "w": 4}, {}, 3, 4)
    assert two == {"v": {0: 4, 1: 4}, "w": {2: 4}}


def test_small_parts_make_room_for_a_larger_one() -> None:
    """The fewest of them, off the node that is nearest to enough."""
    held = {"a": {0: 1}, "b": {0: 1}, "c": {0: 1}, "d": {1: 1}, "e": {1: 1}, "f": {1: 1}}
    sizes = dict.fromkeys("abcdef", 1) | {"g": 2}
    placed = place(sizes, held, 2, 4)
    assert placed["g"] == {0: 2}
    assert placed["a"] == {1: 1}
    assert {name: placed[name] for name in "bcdef"} == {name: held[name] for name in "bcdef"}


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"a": 9}, "9 GPUs of 8"),
        ({"a": 0}, "expected parts of a node or whole nodes: {'a': 0}"),
        ({"a": 6}, "expected parts of a node or whole nodes: {'a': 6}"),
        ({"a": 3, "b": 3, "c": 2}, "no place for 2 GPUs: sizes do not divide each other"),
    ],
)
def test_why_there_is_no_place(sizes: dict[str, int], why: str) -> None:
    """The message has the numbers."""
    with pytest.raises(InputError) as raised:
        place(sizes, {}, 2, 4)
    assert why in str(raised.value)
    assert len(place({"a": 8}, {}, 2, 4)["a"]) == 2


# -- utility -----------------------------------------------------------------------------------

REPORT = GoodputReport(
    left=50.0,
    limits=BatchLimits(initial=64, most=512, local_least=16, local_most=128),
    noise=GradientNoise(square=1.0, variance=100.0),
    steps=(
        StepMeasurement(gpus=1, nodes=1, most=1, local=64.0, compute_s=0.2, sync_s=0.0),
        StepMeasurement(gpus=2, nodes=1, most=2, local=64.0, compute_s=0.2, sync_s=0.01),
    ),
)
EIGHT = (1, 2, 4, 8, 16)


def elastic(**more: Any) -> ElasticJob:
    """A job from 1 to 16 GPUs that waits."""
    fields: dict[str, Any] = {"least": 1, "most": 16, "held": 0, "arrival_s": 3.0, "report": REPORT}
    return ElasticJob(name="a", **{**fields, **more})


def able(one: ElasticJob) -> list[int]:
    """The sizes that it can have."""
    goodput = utility_of(one, EIGHT, 4).goodput
    return [size for size, rate in zip(EIGHT, goodput, strict=True) if rate > 0]


def test_a_job_grows_to_four_times_what_it_measured() -> None:
    """Within its owner's bounds; what it holds already it may keep."""
    assert able(elastic()) == [1, 2, 4, 8]
    assert able(elastic(held=16)) == [1, 2, 4, 8, 16]
    assert able(elastic(least=2, most=4)) == [2, 4]
    single = replace(REPORT, steps=REPORT.steps[:1])
    grown = utility_of(elastic(report=single), (1, 2, 3, 4, 5), 8).goodput
    assert (grown > 0).tolist() == [True, True, True, True, False]
    assert able(elastic(report=replace(REPORT, steps=REPORT.steps[:1]))) == [1, 2, 4]


def test_the_utility_is_what_was_reported() -> None:
    """Goodput of the best batches; no work left is hardly any, as 0 is for what is unknown."""
    found = utility_of(elastic(held=2), EIGHT, 4)
    best = best_batches(REPORT, EIGHT, 4).goodput
    assert found.goodput[:4].tolist() == best[:4].tolist()
    assert (found.name, found.held, found.left, found.arrival_s) == ("a", 2, 50.0, 3.0)
    assert utility_of(elastic(report=replace(REPORT, left=0.0)), EIGHT, 4).left == 1e-9


@pytest.mark.parametrize("report", [None, replace(REPORT, steps=())])
def test_a_job_that_measured_nothing_has_one_size(report: GoodputReport | None) -> None:
    """Its smallest while it waits, what it holds while it runs; and it comes first."""
    assert able(elastic(report=report)) == [1]
    assert able(elastic(report=report, least=2)) == [2]
    assert able(elastic(report=report, least=3, most=3)) == []
    assert able(elastic(report=report, held=8)) == [8]
    found = utility_of(elastic(report=report, held=8), EIGHT, 4)
    assert (found.name, found.held, found.left, found.arrival_s) == ("a", 8, 0.0, 3.0)
    assert found.goodput.tolist() == [0, 0, 0, 1, 0]
