"""The table of a period's runs: which runs are in it, and how each of its figures is made."""

import sqlite3
from typing import Any

import pytest

from slurm_ext.core.errors import HistoryError
from slurm_ext.history.store.store import History
from slurm_ext.history.views import period_view
from slurm_ext.history.views.period_view import Period, select_runs
from tests.history.conftest import add_counter, add_run, insert

ALL = Period(since_s=0.0, until_s=1e9)
GIB = 1 << 30


def selected(history: History, period: Period = ALL) -> dict[int, dict[str, Any]]:
    """The table by run."""
    many = select_runs(history, period, lambda _: None)
    cursor = history.conn.execute("SELECT * FROM temp.period_runs")
    names = [column[0] for column in cursor.description]
    rows = [dict(zip(names, row, strict=True)) for row in cursor]
    assert len(rows) == many
    return {row["id"]: row for row in rows}


def figures(history: History, *names: str) -> list[Any]:
    """Of the only run."""
    (row,) = selected(history).values()
    return [row[name] for name in names]


def test_a_period_begins_with_its_first_second_and_ends_before_its_last(history: History) -> None:
    """[since, until), by the end; runs that never ended are in none; an account's own, if asked."""
    for number, end_s in enumerate((9.9, 10.0, 15.0, 20.0, None), 1):
        add_run(history.conn, number, end_s=end_s, account="x" if number == 3 else "y")
    assert list(selected(history, Period(since_s=10.0, until_s=20.0))) == [2, 3]
    assert list(selected(history, Period(since_s=10.0, until_s=20.0, account="x"))) == [3]
    assert list(selected(history, Period(since_s=10.0, until_s=20.0, account="z"))) == []
    assert list(selected(history, Period(since_s=30.0, until_s=40.0))) == []


def test_counters_count_whatever_order_runs_came_in(history: History) -> None:
    """The first and the last run to come in have theirs; another period's do not count."""
    for number, end_s in ((1, 5.0), (2, 50.0), (3, 6.0), (4, 60.0)):
        add_run(history.conn, number, end_s=end_s, cpus=1, elapsed_s=10.0)
        add_counter(history.conn, number, "cpu_user", 1.0 * number)
        insert(history.conn, "corunners", run=number, job_id=9, overlap_s=1.0 * number)
    found = selected(history, Period(since_s=50.0, until_s=60.1))
    assert {run: row["core_idle"] for run, row in found.items()} == {
        2: pytest.approx(0.8),
        4: pytest.approx(0.6),
    }
    assert [row["node_company"] for row in found.values()] == [0.2, 0.4]


def test_a_second_period_replaces_the_first(history: History) -> None:
    """And nothing but the table stays; the steps are told as they begin."""
    add_run(history.conn, 1, end_s=5.0)
    steps: list[str] = []
    for _ in range(2):
        assert select_runs(history, ALL, steps.append) == 1
    assert steps == ["reading counters", "reading neighbours", "reading runs"] * 2
    tables = history.conn.execute("SELECT name FROM sqlite_temp_master WHERE type = 'table'")
    assert tables.fetchall() == [("period_runs",)]
    assert selected(history, Period(since_s=6.0, until_s=7.0)) == {}


def test_a_runs_own_columns(history: History) -> None:
    """As they are in the history; hours are of its elapsed time, waiting is before its start."""
    columns: dict[str, Any] = {
        "job_id": 7,
        "cluster": "k",
        "node": "m",
        "user": "ada",
        "account": "a",
        "partition": "p",
        "job_name": "t",
        "state": "FAILED",
        "source": "node",
        "decision": "d",
        "cpus": 4,
        "gpus": 2,
        "elapsed_s": 1800.0,
        "start_s": 130.0,
        "end_s": 2000.0,
    }
    extra = {"submit_s": 100.0, "mem_bytes": 8 * GIB, "node_gpu_model": "V100"}
    add_run(history.conn, 1, **columns, **extra)
    (row,) = selected(history).values()
    assert {name: row[name] for name in columns} == columns
    assert row["waited_s"] == 30.0
    assert (row["gpu_hours"], row["core_hours"], row["gib_hours"]) == (1.0, 2.0, 4.0)
    assert (row["gpu_model"], row["emulated"], row["samples_per_s"]) == ("V100", 0, None)


def test_a_clock_that_went_back_costs_no_hours(history: History) -> None:
    """Less than nothing is nothing; what is not known stays unknown, but for GPUs, which are 0."""
    add_run(history.conn, 1, cpus=2, gpus=2, mem_bytes=GIB, elapsed_s=-50.0)
    assert figures(history, "gpu_hours", "core_hours", "gib_hours") == [0.0, 0.0, 0.0]
    history.conn.execute("UPDATE runs SET cpus = NULL, gpus = NULL, mem_bytes = NULL")
    names = ("gpus", "gpu_hours", "core_hours", "gib_hours", "core_idle", "mem_unused")
    assert figures(history, *names) == [0, 0.0, None, None, None, None]


@pytest.mark.parametrize(
    ("gpus", "loader", "starved"),
    [
        (1, {"samples_per_s": 25.0, "accel_samples_per_s": 100.0}, 0.75),
        (1, {"samples_per_s": 150.0, "accel_samples_per_s": 100.0}, 0.0),
        (0, {"samples_per_s": 25.0, "accel_samples_per_s": 100.0}, None),
        (1, {"samples_per_s": 0.0, "accel_samples_per_s": 100.0}, None),
        (1, {"samples_per_s": 25.0, "accel_samples_per_s": 0.0}, None),
        (1, {"samples_per_s": 0.5, "accel_samples_per_s": 1.0}, 0.5),
    ],
)
def test_how_far_data_starved_the_gpu(
    history: History, gpus: int, loader: dict[str, float], starved: float | None
) -> None:
    """The share of the accelerator's own rate that was not reached; none without GPU or rate."""
    add_run(history.conn, 1, gpus=gpus)
    insert(history.conn, "loader_runs", run=1, emulated=1, gpu_model="A100", **loader)
    model = "A100" if gpus else None
    wanted = [starved, loader["samples_per_s"], 1, model]
    assert figures(history, "starved", "samples_per_s", "emulated", "gpu_model") == wanted


def test_what_was_left_idle(history: History) -> None:
    """CPU time of both kinds is added up, GPUs' use is a mean, memory's peak the largest."""
    add_run(history.conn, 1, cpus=2, gpus=2, mem_bytes=1000, elapsed_s=100.0)
    assert figures(history, "core_idle", "mem_unused", "gpu_idle") == [None, None, None]
    for name, source, value in (
        ("cpu_user", "a", 50.0),
        ("cpu_system", "a", 30.0),
        ("mem_peak", "a", 200.0),
        ("mem_peak", "b", 400.0),
        ("gpu_util", "g1", 0.2),
        ("gpu_util", "g2", 0.4),
        ("gpu_util", "g3", None),
        ("gpu_mem_peak", "g1", 9e9),
        ("context_switches", "a", 9e9),
    ):
        add_counter(history.conn, 1, name, value, source)
    assert figures(history, "core_idle", "mem_unused", "gpu_idle") == [
        pytest.approx(0.6),
        pytest.approx(0.6),
        pytest.approx(0.7),
    ]
    history.conn.execute("UPDATE runs SET gpus = 0, elapsed_s = 0, mem_bytes = 0")
    assert figures(history, "core_idle", "mem_unused", "gpu_idle") == [None, None, None]


def test_more_than_all_is_nothing_idle(history: History) -> None:
    """Clocks and counters are never that exact; a share stays within 0 and 1."""
    add_run(history.conn, 1, cpus=1, gpus=1, mem_bytes=100, elapsed_s=10.0)
    for name, value in (("cpu_user", 11.0), ("mem_peak", 101.0), ("gpu_util", -0.5)):
        add_counter(history.conn, 1, name, value)
    assert figures(history, "core_idle", "mem_unused", "gpu_idle") == [0.0, 0.0, 1.0]


def test_company_is_how_many_others_on_average(history: History) -> None:
    """On its GPUs those that had one in common, on its node all; nobody is 0."""
    add_run(history.conn, 1, gpus=1, elapsed_s=100.0)
    assert figures(history, "gpu_company", "node_company") == [0, 0]
    others = ((2, 50.0, "G"), (3, 30.0, "G,H"), (4, 20.0, ""), (5, 10.0, None), (6, 0.0, "G"))
    for job_id, overlap_s, gpus in others:
        insert(
            history.conn, "corunners", run=1, job_id=job_id, overlap_s=overlap_s, shared_gpus=gpus
        )
    assert figures(history, "gpu_company", "node_company") == [
        pytest.approx(0.8),
        pytest.approx(1.1),
    ]
    history.conn.execute("UPDATE runs SET elapsed_s = 0")
    assert figures(history, "gpu_company", "node_company") == [0, 0]


def test_energy_is_a_runs_share(history: History) -> None:
    """Of its GPUs' by how many were there, of the node's by its cores; 0 cores are unknown."""
    meters = {"gpu_energy_j": 300.0, "node_energy_j": 800.0}
    add_run(history.conn, 1, cpus=2, gpus=1, elapsed_s=100.0, node_cores=8, **meters)
    assert figures(history, "gpu_energy_j", "cpu_energy_j") == [300.0, 200.0]
    insert(history.conn, "corunners", run=1, job_id=2, overlap_s=50.0, shared_gpus="G")
    assert figures(history, "gpu_energy_j") == [200.0]
    history.conn.execute("UPDATE runs SET node_cores = 0")
    assert figures(history, "cpu_energy_j") == [None]


def test_a_job_on_several_nodes_counts_once(history: History) -> None:
    """Its records have a node's part each; the first one tells the others' memory."""
    job = {"job_id": 7, "num_nodes": 2, "cpus": 32, "elapsed_s": 3600.0, "end_s": 9000.0}
    meter = {"node_cores": 64, "node_energy_j": 800.0}
    add_run(history.conn, 1, **job, **meter, node="n2", start_s=5400.5)
    first = {"start_s": 5400.0, "submit_s": 5000.0, "mem_bytes": 4 * GIB}
    add_run(history.conn, 2, **job, **meter, **first)
    add_counter(history.conn, 1, "mem_peak", 1.0 * GIB)
    rows = selected(history)
    assert sum(row["core_hours"] for row in rows.values()) == 64.0
    assert sum(row["cpu_energy_j"] for row in rows.values()) == 800.0
    assert [row["gib_hours"] for row in rows.values()] == [4.0, 4.0]
    assert (rows[1]["mem_unused"], rows[2]["mem_unused"]) == (0.75, None)
    assert [(row["first_of_job"], row["waited_s"]) for row in rows.values()] == [
        (0, None),
        (1, 400.0),
    ]


def test_an_imported_job_waits_once_whatever_its_nodes(history: History) -> None:
    """Each of its records tells of the wait; a requeued one waits again."""
    job = {"job_id": 7, "num_nodes": 2, "source": "sacct"}
    for number, at_s in ((1, 100.0), (2, 100.0), (3, 500.0), (4, 500.0)):
        times = {"submit_s": at_s, "start_s": at_s + number, "end_s": at_s + 50.0}
        add_run(history.conn, number, **job, **times)
    waits = {run: row["waited_s"] for run, row in selected(history).items()}
    assert waits == {1: 1.0, 2: None, 3: 3.0, 4: None}
    assert [row["first_of_job"] for row in selected(history).values()] == [1, 0, 1, 0]


def fails_with(code: int) -> Any:
    """A step that SQLite refuses with this code."""

    def fail(*_: object) -> None:
        error = sqlite3.OperationalError("refused")
        error.sqlite_errorcode = code
        raise error

    return fail


def test_no_room_for_the_table_is_told_as_that(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the folder for temporary files, not on the history's disk; other faults differ."""
    monkeypatch.setattr(period_view, "_select_runs", fails_with(sqlite3.SQLITE_FULL))
    with pytest.raises(HistoryError) as full:
        select_runs(history, ALL, lambda _: None)
    assert str(full.value) == (
        "the folder for temporary files has no room for a report's own table, some 300 bytes a"
        " run; SQLITE_TMPDIR names another"
    )
    monkeypatch.setattr(period_view, "_select_runs", fails_with(sqlite3.SQLITE_CORRUPT))
    with pytest.raises(HistoryError, match=r"history\.db is damaged; move it away"):
        select_runs(history, ALL, lambda _: None)
