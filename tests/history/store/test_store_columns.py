"""Columns of the history: those that later versions added, with their types."""

import re
import sqlite3

import pytest

from slurm_ext.core.stalls.step_split import PARTS
from slurm_ext.history.store import first_tables, names, schema
from slurm_ext.history.store.column_types import drop_checks
from slurm_ext.history.store.store import History
from tests.history.conftest import add_counter, add_run


def test_names_of_columns() -> None:
    """One key column for each level, in the order of levels; accounting's own source."""
    keys = ("key_script_args", "key_script", "key_user_name", "key_kind", "key_cluster")
    assert keys == names.KEY_COLUMNS == first_tables.KEY_COLUMNS
    assert tuple(names.KEY_OF_LEVEL.values()) == keys
    assert names.SACCT == "sacct"


ADDED = {
    "loader_runs": {
        "ranks": "INTEGER",
        "nodes": "INTEGER",
        "run_samples": "REAL",
        "outside_s": "REAL",
        "gpu_model": "TEXT",
        "fetch_queued_s": "REAL",
        "step_queued_s": "REAL",
        "main_queued_s": "REAL",
        "sample_bytes": "REAL",
        "doubt": "INTEGER",
        "whole_samples_per_s": "REAL",
        "startup_s": "REAL",
        "refused": "INTEGER",
        "used_cores": "REAL",
        "threads": "INTEGER",
        "on_cpu": "INTEGER",
        "data_key": "INTEGER",
        "crowded": "INTEGER",
    },
    "runs": {
        "node_gpu_model": "TEXT",
        "gpu_energy_j": "REAL",
        "node_energy_j": "REAL",
        "mps": "TEXT",
    },
    "decisions": {
        "sharing": "TEXT",
        "elastic": "TEXT",
        "ranks": "INTEGER",
        "buckets": "TEXT",
        "crowded": "INTEGER",
        "factor_beside": "REAL",
        "before_else_samples_per_s": "REAL",
        "after_else_samples_per_s": "REAL",
        "before_else_low": "REAL",
        "after_else_low": "REAL",
        "before_else_high": "REAL",
        "after_else_high": "REAL",
    },
    "corunners": {"shared_cpus": "INTEGER", "shared_sockets": "INTEGER", "shared_gpus": "TEXT"},
}


@pytest.mark.parametrize("table", ADDED)
def test_columns_that_later_versions_added(history: History, table: str) -> None:
    """After those of the first version, in their order, with their types, which an export shows."""
    columns = [(c.name, c.type, c.notnull) for c in history.db.table(table).columns]
    added = ADDED[table]
    assert columns[-len(added) :] == [(name, kind, 0) for name, kind in added.items()]


def test_the_table_of_actions(history: History) -> None:
    """Each column with its type and whether it may be empty; found by job and by time."""
    found = [(c.name, c.type, c.notnull) for c in history.db.table("moves").columns]
    assert found == [
        ("id", "INTEGER", 0),
        ("move_id", "TEXT", 1),
        ("at_s", "REAL", 1),
        *((name, "TEXT", 1) for name in ("kind", "mode", "subject")),
        ("job_id", "INTEGER", 0),
        *((name, "TEXT", 1) for name in ("done", "why", "before", "after")),
        ("outcome", "TEXT", 0),
    ]
    indexes = {index.name: index.columns for index in history.db.table("moves").indexes}
    del indexes["sqlite_autoindex_moves_1"]
    assert indexes == {"moves_job": ["job_id"], "moves_at": ["at_s"]}
    elastic = [i for i in history.db.table("decisions").indexes if i.name == "decisions_elastic"]
    assert [(index.columns, index.partial) for index in elastic] == [(["job_id"], 1)]


def test_a_users_newest_runs_and_an_arrays_tasks_are_found_by_index(history: History) -> None:
    """No question about a user, or an array, reads a million runs of others."""
    for sql, used in (
        ("SELECT id FROM runs WHERE user = 'ada' ORDER BY end_s DESC LIMIT 9", ["runs_user_end"]),
        (
            "SELECT id FROM runs WHERE job_id = 7 OR array_job_id = 7",
            ["runs_array", "runs_job"],
        ),
    ):
        plan = " ".join(row[3] for row in history.conn.execute(f"EXPLAIN QUERY PLAN {sql}"))
        assert sorted(set(re.findall(r"runs_\w+", plan))) == used
        assert "TEMP B-TREE" not in plan


def test_the_columns_of_outcomes(history: History) -> None:
    """What the report and `explain` read of it."""
    cursor = history.conn.execute("SELECT * FROM outcomes")
    assert [column[0] for column in cursor.description] == [
        *("decision", "token", "mode", "action", "holdout", "acted", "level", "runs", "factor"),
        *("crowded", "before_samples_per_s", "before_low", "after_samples_per_s"),
        *("predicted", "low", "high", "achieved", "run", "end_s"),
    ]


def test_energy_of_runs_that_were_recorded_before(history: History) -> None:
    """Each run's own counters, GPUs apart from the node; less than nothing is no reading."""
    for number in (1, 2, 3):
        add_run(history.conn, number)
    for run, name, source, value in (
        (1, "gpu_energy", "a", 10.0),
        (1, "gpu_energy", "b", 5.0),
        (1, "gpu_energy", "c", -1.0),
        (1, "node_energy_cpu", "a", 3.0),
        (1, "node_energy_dram", "a", 4.0),
        (1, "cpu_user", "a", 99.0),
        (2, "gpu_energy", "a", 0.0),
        (2, "node_energy_dram", "a", 7.0),
    ):
        add_counter(history.conn, run, name, value, source)
    drop_checks(history.db, "runs")
    for name in ("node_gpu_model", "gpu_energy_j", "node_energy_j"):
        history.conn.execute(f"ALTER TABLE runs DROP COLUMN {name}")
    schema.energy_of_runs(history.db)
    sql = "SELECT gpu_energy_j, node_energy_j, node_gpu_model FROM runs ORDER BY id"
    wanted = [(15.0, 7.0, None), (0.0, 7.0, None), (None, None, None)]
    assert history.conn.execute(sql).fetchall() == wanted


def test_the_table_of_steps(history: History) -> None:
    """Each part of a step that the bar has, in seconds; a value of another type is refused."""
    found = [(c.name, c.type) for c in history.db.table("step_splits").columns]
    wanted = [(f"{part}_s", "REAL") for part in PARTS if part != "crowded"]
    ranks = [("rank_skew_s", "REAL"), ("slow_rank", "INTEGER"), ("ranks", "INTEGER")]
    assert found == [("run", "INTEGER"), *wanted, ("au", "REAL"), *ranks, ("crowded_s", "REAL")]
    add_run(history.conn, 1)
    with pytest.raises(sqlite3.IntegrityError, match="takes no such value"):
        history.conn.execute("INSERT INTO step_splits (run, au) VALUES (1, 'all')")
