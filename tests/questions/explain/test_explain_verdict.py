"""`dlqueue explain` says whether a run was as predicted, and what it knows of why not."""

from typing import Any

import pytest

from slurm_ext.questions.explain.verdict import UNKNOWN, line, verdict_of

PAST: list[dict[str, Any]] = [
    {"gpu_model": "A100", "data_key": 5},
    {"gpu_model": None, "data_key": None},
]
RUN: dict[str, Any] = {
    "corunners": [],
    "loader_samples_per_s": 100.0,
    "loader_gpu_model": "A100",
    "loader_data_key": 5,
}


def said(achieved: float | None = 50.0, **changes: Any) -> str | None:
    """The line of a run of which 80 to 120 samples/s were predicted."""
    predicted = {"low": 80.0, "high": 120.0, "achieved": achieved}
    found = verdict_of(predicted, {**RUN, **changes}, PAST)
    return None if found is None else line(found)


def beside(*cpus: int | None) -> list[dict[str, Any]]:
    """Jobs on the node, by the CPUs that they had in common with it."""
    return [{"shared": None if many is None else {"cpus": many}} for many in cpus]


@pytest.mark.parametrize("achieved", [80.0, 100.0, 120.0])
def test_a_run_inside_its_interval_needs_no_reason(achieved: float) -> None:
    """Its ends belong to it."""
    assert said(achieved, corunners=beside(4)) == "verdict:  inside its interval"


def test_there_is_no_verdict_without_prediction_and_measurement() -> None:
    """Neither for a job that nothing was predicted of, nor for one that measured nothing."""
    assert verdict_of(None, RUN, PAST) is None
    assert said(None) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, UNKNOWN),
        ({"corunners": beside(2, 2, None, 0, 1, 8)}, "4 other jobs wanted the same cores"),
        ({"corunners": beside(2)}, "another job wanted the same cores"),
        ({"corunners": beside(0, None)}, UNKNOWN),
        ({"loader_main_queued_s": 0.0035}, "it waited for a core 35% of its time"),
        ({"loader_main_queued_s": 0.0009}, UNKNOWN),
        (
            {"loader_fetch_wall_s": 0.1, "loader_fetch_queued_s": 0.06},
            "it waited for a core 60% of its time",
        ),
        (
            {"split": {"computing_s": 0.9, "starting_s": 0.1}},
            "starting workers took 10% of its time",
        ),
        ({"split": {"computing_s": 0.95, "starting_s": 0.05}}, UNKNOWN),
        ({"split": None}, UNKNOWN),
        ({"loader_gpu_model": "T4"}, "it ran on T4, earlier runs on A100"),
        ({"loader_refused": 3}, "its dataset is iterable, so its workers stay"),
        ({"loader_refused": 0}, UNKNOWN),
        ({"loader_refused": 1}, UNKNOWN),
        ({"loader_data_key": 6}, "its data or its batch were others"),
        ({"loader_data_key": None, "loader_gpu_model": None}, UNKNOWN),
        (
            {"loader_data_key": 6, "corunners": beside(1)},
            "another job wanted the same cores; its data or its batch were others",
        ),
    ],
)
def test_a_slow_run_is_explained_by_what_the_record_knows(
    changes: dict[str, Any], why: str
) -> None:
    """Others on its cores, waiting, another GPU, refused workers, other data; or nothing known."""
    assert said(50.0, **changes) == f"verdict:  outside its interval, below it: {why}"


def test_a_fast_run_is_not_explained_by_what_slows() -> None:
    """Other jobs on its cores made nothing faster."""
    told = said(500.0, corunners=beside(4), loader_main_queued_s=0.5)
    assert told == f"verdict:  outside its interval, above it: {UNKNOWN}"
