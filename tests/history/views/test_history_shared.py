"""Runs that shared a node or a GPU, and runs that did not: every bound of what counts as which."""

from typing import Any

import pytest

from slurm_ext.core.records import Level
from slurm_ext.history.store.column_types import drop_checks
from slurm_ext.history.store.store import History
from slurm_ext.history.views.gpu_runs import MOST_RUNS, gpu_runs
from slurm_ext.history.views.shared_runs import (
    ALONE_S,
    PARTNER_COLUMNS,
    RUN_COLUMNS,
    alone_rows,
    counters_of,
    together_rows,
)
from tests.history.conftest import add_counter, add_decision, add_run, insert


def together(history: History, job_id: int | None = None) -> list[dict[str, Any]]:
    """Rows of runs beside others, by column."""
    names = (*RUN_COLUMNS, *PARTNER_COLUMNS)
    return [dict(zip(names, row, strict=True)) for row in together_rows(history, job_id)]


def alone(history: History, *of: tuple[str | None, str | None]) -> list[int]:
    """Runs that were alone."""
    return [row[0] for row in alone_rows(history, *of)]


def beside(history: History, run: int, job_id: int, **columns: Any) -> None:
    """Another job on a run's node."""
    insert(history.conn, "corunners", run=run, job_id=job_id, **{"overlap_s": 30.0, **columns})


def test_every_column_of_a_run_beside_another(history: History) -> None:
    """The run's own figures, its loader's, its keys, and those of the job it was beside."""
    conn = history.conn
    add_run(
        conn,
        1,
        user="ada",
        job_name="train",
        state="FAILED",
        start_s=100.0,
        end_s=200.0,
        elapsed_s=99.0,
        cpus=4,
        gpus=2,
        num_nodes=3,
        decision="d1",
    )
    loader = {"samples_per_s": 5.0, "workers": 6, "batch_size": 7.0, "gpu_model": "A100"}
    keys = {"key_script_args": 11, "key_script": 12, "key_user_name": 13}
    insert(conn, "loader_runs", run=1, **loader, **keys)
    add_decision(conn, "d1", key_script=22)
    add_run(conn, 2, user="bob", job_name="other", start_s=150.0, end_s=300.0, decision="d2")
    insert(conn, "loader_runs", run=2, key_script=32, key_user_name=33)
    add_decision(conn, "d2", key_user_name=43)
    beside(history, 1, 2, overlap_s=50.0, shared_cpus=3, shared_sockets=9, shared_gpus="G")
    for source, value in (("a", 1000.0), ("b", 500.0)):
        add_counter(conn, 1, "perf_instructions", value, source)
    add_counter(conn, 1, "perf_cycles", 7.0)
    assert together(history) == [
        {
            "run": 1,
            "job_id": 1,
            "cluster": "c",
            "node": "n",
            "user": "ada",
            "job_name": "train",
            "state": "FAILED",
            "start_s": 100.0,
            "end_s": 200.0,
            "elapsed_s": 99.0,
            "cpus": 4,
            "gpus": 2,
            "num_nodes": 3,
            **loader,
            "instructions": 1500.0,
            **keys,
            "key_script": 22,
            "overlap_s": 50.0,
            "shared_cpus": 3,
            "shared_gpus": "G",
            "partner_user": "bob",
            "partner_job_name": "other",
            "partner_key_script": 32,
            "partner_key_user_name": 43,
        }
    ]


@pytest.mark.parametrize(
    ("partner", "user"),
    [
        ({"start_s": 150.0, "end_s": 300.0}, "bob"),
        ({"start_s": 0.0, "end_s": 100.5}, "bob"),
        ({"start_s": 199.5, "end_s": 300.0}, "bob"),
        ({"start_s": 0.0, "end_s": 100.0}, None),
        ({"start_s": 200.0, "end_s": 300.0}, None),
        ({"start_s": 150.0, "end_s": 300.0, "node": "other"}, None),
        ({"start_s": 150.0, "end_s": 300.0, "cluster": "other"}, None),
        ({"start_s": 150.0, "end_s": 300.0, "job_id": 3}, None),
    ],
)
def test_a_partner_ran_at_that_time_on_that_node(
    history: History, partner: dict[str, Any], user: str | None
) -> None:
    """The same job id before or after, elsewhere or of another cluster, is another job.

    The run beside it stays, with nothing known of its partner.
    """
    add_run(history.conn, 1, start_s=100.0, end_s=200.0)
    add_run(history.conn, 2, **{"user": "bob", **partner})
    beside(history, 1, 2)
    assert [(row["run"], row["partner_user"]) for row in together(history)] == [(1, user)]


def test_runs_beside_others_come_newest_end_first(history: History) -> None:
    """Of one end, the last to come in first; a run without time is none; one job's, if asked."""
    ends = ((1, 5.0, 60.0), (2, 9.0, 60.0), (3, 9.0, 60.0), (4, 7.0, 0.0), (5, 6.0, 0.5))
    for number, end_s, elapsed_s in ends:
        add_run(history.conn, number, end_s=end_s, elapsed_s=elapsed_s)
        beside(history, number, 99)
    add_run(history.conn, 6)
    assert [row["run"] for row in together(history)] == [3, 2, 5, 1]
    assert [row["run"] for row in together(history, 2)] == [2]
    assert together(history, 6) == []


@pytest.mark.parametrize(
    ("gpus", "overlap_s", "shared_gpus", "is_alone"),
    [
        (0, 100 * ALONE_S, None, True),
        (0, 100 * ALONE_S + 0.01, None, False),
        (None, 50.0, "", False),
        (0, None, "", False),
        (1, 50.0, "", True),
        (1, None, "", True),
        (1, 50.0, None, False),
        (1, 50.0, "G", False),
        (1, None, "G", False),
        (1, 100 * ALONE_S, "G", True),
    ],
)
def test_who_was_alone(
    history: History,
    gpus: int | None,
    overlap_s: float | None,
    shared_gpus: str | None,
    is_alone: bool,
) -> None:
    """A run with GPUs had them to itself, one without had its node, but for a fiftieth of its time.

    Where the time or the GPUs in common are not known, it may have had company.
    """
    assert ALONE_S == 0.02
    add_run(history.conn, 1, gpus=gpus, elapsed_s=100.0)
    beside(history, 1, 2, overlap_s=overlap_s, shared_gpus=shared_gpus)
    assert alone(history) == ([1] if is_alone else [])


def test_runs_alone_of_one_user_and_name(history: History) -> None:
    """Newest end first; without a name are those that have none, not all; no time is no run."""
    names = (("ada", "x"), ("ada", None), ("bob", "x"), ("ada", "x"), ("ada", "x"))
    for number, (user, name) in enumerate(names, 1):
        add_run(
            history.conn, number, user=user, job_name=name, elapsed_s=60.0 if number < 5 else 0.0
        )
    history.conn.execute("UPDATE runs SET end_s = 3.0 WHERE id = 4")
    assert alone(history) == [4, 3, 2, 1]
    assert alone(history, ("ada", "x")) == [4, 1]
    assert alone(history, ("ada", None)) == [2]
    row = next(alone_rows(history, ("bob", "x")))
    assert len(row) == len(RUN_COLUMNS)


def test_a_history_of_before_has_no_shared_gpus(history: History) -> None:
    """Then nobody looked: a run with GPUs beside another was not alone; columns are empty."""
    add_run(history.conn, 1, gpus=1)
    beside(history, 1, 2)
    drop_checks(history.db, "corunners")
    for name in ("shared_cpus", "shared_gpus"):
        history.conn.execute(f"ALTER TABLE corunners DROP COLUMN {name}")
    assert alone(history) == []
    assert [(r["shared_cpus"], r["shared_gpus"]) for r in together(history)] == [(None, None)]


def test_counters_by_name_then_source(history: History) -> None:
    """Of the runs in the order asked for; those that were not measured are not there."""
    add_run(history.conn, 1)
    for name, source, value in (
        ("b", "s", 1.0),
        ("a", "t", 2.0),
        ("a", "s", 0.0),
        ("c", "s", None),
    ):
        add_counter(history.conn, 1, name, value, source)
    add_run(history.conn, 2)
    add_counter(history.conn, 2, "a", 9.0)
    assert list(counters_of(history, [2, 1])) == [
        (2, "a", 9.0),
        (1, "a", 0.0),
        (1, "a", 2.0),
        (1, "b", 1.0),
    ]


def a_gpu_run(history: History, number: int, **columns: Any) -> None:
    """A run of the script 7, with its loader."""
    add_run(history.conn, number, **columns)
    insert(history.conn, "loader_runs", run=number, key_script=7, workers=number)


def test_the_newest_gpu_runs_of_a_key(history: History) -> None:
    """At most MOST_RUNS, the newest first; one without time is none, nor is another key's."""
    assert MOST_RUNS == 16
    for number in range(1, MOST_RUNS + 3):
        a_gpu_run(history, number)
    history.conn.execute("UPDATE runs SET elapsed_s = 0 WHERE id = 5")
    history.conn.execute("UPDATE loader_runs SET key_script = NULL, key_kind = 7 WHERE run = 6")
    numbers = [run.job_id for run in gpu_runs(history, Level.SCRIPT, 7)]
    assert numbers == [n for n in range(MOST_RUNS + 2, 0, -1) if n not in (5, 6)]
    assert [run.job_id for run in gpu_runs(history, Level.KIND, 7)] == [6]
    a_gpu_run(history, 99)
    a_gpu_run(history, 98)
    a_gpu_run(history, 97)
    assert len(gpu_runs(history, Level.SCRIPT, 7)) == MOST_RUNS
    assert gpu_runs(history, Level.SCRIPT, 8) == []


def test_a_gpu_run_with_its_counters(history: History) -> None:
    """Each counter once for all GPUs: a mean, of a peak the largest; no others of the run."""
    add_run(history.conn, 1, job_id=5, cpus=4, elapsed_s=50.0)
    loader = {
        "samples_per_s": 1.5,
        "workers": 2,
        "batch_size": 8.0,
        "accel_samples_per_s": 3.5,
        "ranks": 2,
        "nodes": 1,
        "gpus": 3,
        "run_samples": 100.0,
        "emulated": 0,
        "gpu_model": "A100",
    }
    insert(history.conn, "loader_runs", run=1, key_script=7, **loader)
    figures = {"gpu_util@G1": 0.2, "gpu_util@G2": 0.6, "gpu_mem_peak@G1": 10, "gpu_mem_peak@G2": 20}
    for name, value in {**figures, "cpu_user": 9.0, "gpu_power": None}.items():
        add_counter(history.conn, 1, name, value)
    (run,) = gpu_runs(history, Level.SCRIPT, 7)
    assert (run.job_id, run.elapsed_s, run.cpus, run.shared) == (5, 50.0, 4, False)
    assert run.loader == loader
    assert run.counters == {"gpu_util": pytest.approx(0.4), "gpu_mem_peak": 20.0}


@pytest.mark.parametrize(("gpus", "shared"), [(None, False), ("", False), ("G", True)])
def test_a_gpu_run_is_shared_where_another_was_on_its_gpu(
    history: History, gpus: str | None, shared: bool
) -> None:
    """Not where it was only on the node, nor where nobody looked; nor for another run's sake."""
    a_gpu_run(history, 1)
    add_run(history.conn, 2)
    beside(history, 1, 2, shared_gpus=gpus)
    beside(history, 2, 3, shared_gpus="G")
    assert [run.shared for run in gpu_runs(history, Level.SCRIPT, 7)] == [shared]
