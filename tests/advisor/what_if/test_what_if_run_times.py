"""Run lengths and run times of a what-if table."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.what_if.run_length import TrainingWork, work_of
from slurm_ext.advisor.what_if.runtime_estimates import (
    completed,
    runtime_evidence,
    runtime_json,
    wanted_of,
)
from slurm_ext.advisor.what_if.speed import of_model
from slurm_ext.core.records import Interval, Level, Submission
from slurm_ext.model.duration.query import DurationQuery
from tests.advisor.what_if.drafts import RUN, table
from tests.advisor.what_if.what_if_examples import OTHER_GPU


def test_work_is_the_median_of_runs_that_did_alike() -> None:
    """Half as much again is still alike; the seconds outside are the least and most seen."""
    runs = [
        replace(RUN, run_samples=samples, outside_s=outside_s)
        for samples, outside_s in ((100.0, 3.0), (150.0, 0.0), (110.0, 9.0))
    ]
    work, why = work_of({Level.SCRIPT_ARGS: runs, Level.SCRIPT: [RUN]})
    assert work is not None
    assert work.log_sd == pytest.approx(0.1731, abs=1e-4)
    assert replace(work, log_sd=0.0) == TrainingWork(
        samples=110.0,
        log_sd=0.0,
        outside_s=Interval(0.0, 9.0),
        level=Level.SCRIPT_ARGS,
        runs=3,
    )
    assert why == ""
    uneven = [runs[0], replace(runs[1], run_samples=150.1)]
    assert work_of({Level.SCRIPT: uneven}) == (
        None,
        "earlier runs did different amounts of work: 100 to 150 samples",
    )
    unknown = "no run of this script has come to its end with its samples counted"
    assert work_of({Level.USER_NAME: runs}) == (None, unknown)
    assert work_of({Level.SCRIPT: [replace(RUN, outside_s=None)]}) == (None, unknown)
    found, _ = work_of(
        {Level.SCRIPT_ARGS: [replace(RUN, run_samples=0.0)], Level.SCRIPT: [runs[0]]}
    )
    assert found is not None
    assert (found.level, found.runs) == (Level.SCRIPT, 1)
    small, _ = work_of({Level.SCRIPT: [replace(RUN, run_samples=0.5)]})
    assert small is not None


def test_seconds_of_a_run_carry_the_doubts_of_rate_and_work() -> None:
    """Both ends: the rate's factor of two and the work's spread, added as squares of logs."""
    work = TrainingWork(
        samples=1000.0, log_sd=0.0, outside_s=Interval(10.0, 30.0), level=Level.SCRIPT, runs=1
    )
    run_s, bounds = work.run_s(10.0, Interval(5.0, 20.0, 0.8))
    assert run_s == 120.0
    assert (bounds.low, bounds.high, bounds.level) == pytest.approx((60.0, 230.0, 0.8))
    _, wider = replace(work, log_sd=0.5).run_s(10.0, Interval(5.0, 20.0))
    assert (wider.low, wider.high) == pytest.approx((44.1086, 323.181), rel=1e-4)


@pytest.mark.parametrize(
    ("fields", "changes"),
    [
        ({}, {}),
        ({"user_name": "u", "name": "n", "account": "a"}, "named"),
        ({"partition": "q"}, {"partition": "q"}),
        (
            {"mem_per_node_mib": 3, "min_nodes": 2},
            {"mem_bytes": 6 << 20, "num_nodes": 2, "cpus": 2},
        ),
        ({"mem_per_cpu_mib": 3, "cpus_per_task": 2}, {"mem_bytes": 6 << 20, "cpus": 2}),
        ({"num_tasks": 3, "cpus_per_task": 2}, {"cpus": 6}),
        ({"time_limit_minutes": 2}, {"time_limit_s": 120.0}),
        ({"time_limit_minutes": 0}, {"time_limit_s": 0}),
        ({"tres_per_job": "gpu:4", "min_nodes": 2}, {"gpus": 2, "num_nodes": 2, "cpus": 2}),
    ],
)
def test_the_question_about_a_jobs_length(fields: dict[str, Any], changes: Any) -> None:
    """The whole job in the units of ended ones; empty names are unknown."""
    if changes == "named":
        changes = {"user": "u", "job_name": "n", "account": "a"}
    plain = DurationQuery(submit_s=5.0, partition="p", cpus=1, num_nodes=1, gpus=0)
    assert wanted_of(Submission(**fields), 5.0, "p") == replace(plain, **changes)
    assert wanted_of(Submission(), 5.0).partition is None


@pytest.mark.parametrize(
    ("runs", "like", "text"),
    [
        (0, [], "0 ended jobs"),
        (1, ["user"], "1 ended job of the same user"),
        (12, ["user", "job_name"], "12 ended jobs of the same user and job name"),
        (
            2,
            ["user", "partition", "time_limit_s"],
            "2 ended jobs of the same user, partition and time limit",
        ),
    ],
)
def test_ended_jobs_in_a_clause(runs: int, like: list[str], text: str) -> None:
    """One, several, and what they share."""
    assert runtime_evidence({"runs": runs, "like": like}) == text
    assert runtime_json(None) is None


def test_a_written_row_without_a_run_time_gets_the_models() -> None:
    """Other rows, and rows that have one, stay as they are."""
    told = {
        "median_s": 9.0,
        "mean_s": 8.0,
        "low_s": 3.0,
        "high_s": 20.0,
        "runs": 1,
        "like": ["user"],
    }
    known, unknown = table(RUN), table(replace(RUN, run_samples=None))
    assert completed(known, told) == known
    assert completed(unknown, None) is unknown
    made = completed(unknown, told)
    for before, after in zip(unknown.rows, made.rows, strict=True):
        if "written" not in before.marks:
            assert after == before
            continue
        note = "its run time is that of 1 ended job of the same user"
        assert after == replace(
            before, run_s=9.0, run_interval=Interval(3.0, 20.0), notes=(*before.notes, note)
        )


def test_runs_of_one_kind_of_gpu() -> None:
    """By a part of the driver's name; a level without any is left out."""
    evidence = {Level.SCRIPT: [RUN, OTHER_GPU], Level.KIND: [RUN]}
    assert of_model(evidence, "h100") == {Level.SCRIPT: [OTHER_GPU]}
    assert of_model(evidence, "NVIDIA H100") == {Level.SCRIPT: [OTHER_GPU]}
    assert of_model(evidence, None) == evidence
    assert of_model(evidence, "") == {}
