"""A job as the duration model sees it: names, counted names, logs; and run times of rows."""

from math import inf, log, nan
from typing import Any

import pytest

from slurm_ext.advisor.what_if.runtime_estimates import wanted_of
from slurm_ext.core.records import Submission
from slurm_ext.model.duration.query import NUMBERS, DurationQuery, query_of_run, runtime_s


def test_names_and_numbers_of_a_job() -> None:
    """Unknown names are empty; counts are keys as well as logs; what is not positive is unknown."""
    job = DurationQuery(
        submit_s=5.0,
        user="ann",
        partition="gpu",
        cpus=4,
        gpus=2.0,
        time_limit_s=3600.4,
        mem_bytes=0,
        num_nodes=-1,
    ).submission()
    assert job.submit_s == 5.0
    assert job.names == {
        "user": "ann",
        "job_name": "",
        "account": "",
        "partition": "gpu",
        "gpus": "2",
        "time_limit_s": "3600",
    }
    logs = {"log_cpus": log(4), "log_gpus": log(2), "log_time_limit_s": log(3600.4)}
    unknown = {f"log_{name}": None for name in NUMBERS}
    assert job.numbers == {**unknown, **logs}
    assert DurationQuery(submit_s=0.0, gpus=0).submission().names["gpus"] == "0"
    assert DurationQuery(submit_s=0.0, gpus=inf).submission().names["gpus"] == ""
    assert DurationQuery(submit_s=0.0, gpus=inf).submission().numbers["log_gpus"] is None


@pytest.mark.parametrize("submit_s", [None, nan, inf])
def test_a_row_without_its_submission_is_no_query(submit_s: float | None) -> None:
    """Every field of a row is taken, and only with a time."""
    assert query_of_run({"submit_s": submit_s, "user": "ann"}) is None
    query = query_of_run({"submit_s": 3, "user": "ann", "cpus": 2, "mem_bytes": 5, "state": "x"})
    assert query == DurationQuery(submit_s=3.0, user="ann", cpus=2, mem_bytes=5)


@pytest.mark.parametrize(
    ("row", "seconds"),
    [
        ({"end_s": 10.0, "elapsed_s": 4.0}, 4.0),
        ({"end_s": 10.0, "elapsed_s": 0.0}, 0.0),
        ({"end_s": 10.0, "elapsed_s": 4.0, "start_s": 1.0}, 4.0),
        ({"end_s": 10.0, "start_s": 1.0}, 9.0),
        ({"end_s": 10.0, "start_s": 11.0}, None),
        ({"end_s": 10.0}, None),
        ({"elapsed_s": 4.0}, None),
        ({"end_s": 10.0, "elapsed_s": 4.0, "submit_s": 10.0}, 4.0),
        ({"end_s": 10.0, "elapsed_s": 4.0, "submit_s": 10.1}, None),
        ({"end_s": 10.0, "elapsed_s": -0.1}, None),
        ({"end_s": 10.0, "elapsed_s": nan}, None),
        ({"end_s": 10.0, "elapsed_s": inf}, None),
    ],
)
def test_run_times(row: dict[str, Any], seconds: float | None) -> None:
    """As recorded, else from start to end; nothing that cannot be."""
    assert runtime_s(row) == seconds


def test_a_record_on_one_of_several_nodes_asks_for_the_whole_job() -> None:
    """Its CPUs and memory are that node's part: the job is the same as at its submission."""
    run = {"submit_s": 5.0, "node": "n2", "num_nodes": 2, "gpus": 4, "partition": "p"}
    run |= {"cpus": 32, "mem_bytes": 64 << 30}
    shape: dict[str, Any] = {
        "num_tasks": 2,
        "min_nodes": 2,
        "cpus_per_task": 32,
        "tres_per_job": "gpu:8",
    }
    job = Submission(partition="p", mem_per_node_mib=64 << 10, **shape)
    assert query_of_run(run) == wanted_of(job, 5.0)
    unknown = query_of_run({**run, "cpus": None, "num_nodes": None})
    assert unknown is not None
    assert (unknown.cpus, unknown.mem_bytes) == (None, 64 << 30)


def test_a_record_of_no_named_node_is_of_the_whole_job() -> None:
    """Accounting without its list of nodes gives one record, with all that the job had."""
    query = query_of_run({"submit_s": 5.0, "node": "", "num_nodes": 4, "cpus": 8, "mem_bytes": 9})
    assert query is not None
    assert (query.cpus, query.mem_bytes, query.num_nodes) == (8, 9, 4)
