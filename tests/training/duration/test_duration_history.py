"""Runs of history become jobs to learn durations from: one a job, nothing impossible."""

from math import log
from typing import Any

import pytest

from slurm_ext.model.duration.query import SITE, query_of_run
from slurm_ext.model.duration.state import DurationState
from slurm_ext.training.duration.challenge import finished_jobs


def run(**changed: Any) -> dict[str, Any]:
    """A row of `runs`."""
    told = {"cluster": "c", "job_id": 1, "restart": 0, "user": "ann", "job_name": "train"}
    told |= {"partition": "gpu", "account": "a", "gpus": 2, "cpus": 8, "time_limit_s": 3600.0}
    told |= {"submit_s": 100.0, "start_s": 150.0, "end_s": 250.0, "elapsed_s": 100.0}
    return {**told, **changed}


def test_a_job_of_many_nodes_is_one_job() -> None:
    """It ended when its last node did; a restart is a job of its own; the oldest comes first."""
    told = finished_jobs([run(), run(end_s=260.0, elapsed_s=110.0), run(restart=1, submit_s=90.0)])
    assert [(job.asked.submit_s, job.end_s, job.duration_s) for job in told] == [
        (90.0, 250.0, 100.0),
        (100.0, 260.0, 110.0),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"submit_s": None},
        {"end_s": None},
        {"elapsed_s": -5.0},
        {"elapsed_s": float("nan")},
        {"end_s": 50.0},
        {"elapsed_s": None, "start_s": None},
    ],
)
def test_impossible_runs_teach_nothing(wrong: dict[str, Any]) -> None:
    """No submission, no end, a negative length, an end before the submission: left out."""
    assert finished_jobs([run(**wrong)]) == []


def test_a_run_without_its_length_is_told_by_its_times() -> None:
    """Start and end are enough."""
    (job,) = finished_jobs([run(elapsed_s=None)])
    assert job.duration_s == 100.0


def test_what_is_not_told_is_not_zero() -> None:
    """Absent names and numbers are unknown; the state takes the submission as it is."""
    asked = query_of_run({"submit_s": 5.0, "user": "ann", "gpus": 0, "cpus": 4})
    assert asked is not None
    told = asked.submission()
    assert told.numbers["log_gpus"] is None
    assert told.numbers["log_cpus"] == pytest.approx(log(4))
    assert len(DurationState(SITE).row(told)) == len(SITE.features)
