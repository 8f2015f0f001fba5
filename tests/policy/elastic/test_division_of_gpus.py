"""Utilities, sizes and their division on small examples: each rule with its bounds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.model.scaling.goodput import BatchLimits, GradientNoise
from slurm_ext.model.scaling.goodput_speed import StepMeasurement
from slurm_ext.policy.elastic import optimiser
from slurm_ext.policy.elastic.genetic_search import (
    Problem,
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
from slurm_ext.policy.elastic.utility import ElasticJob, GoodputReport, best_batches, utility_of

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
