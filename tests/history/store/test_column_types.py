"""Columns hold values of their type: what earlier versions took is cleared, the like is refused."""

import sqlite3
from pathlib import Path

import pytest

from slurm_ext.core.errors import HistoryError
from slurm_ext.history.store import schema
from slurm_ext.history.store.store import History, open_history
from tests.history.conftest import add_run

BAD = {"INTEGER": "abc", "REAL": "abc", "TEXT": b"x", "BLOB": "abc"}


def columns(history: History) -> list[tuple[str, str, str]]:
    """Table, name and type of each column whose values come from outside."""
    found = history.conn.execute(
        "SELECT m.name, c.name, c.type FROM sqlite_master m, pragma_table_info(m.name) c"
        " WHERE m.type = 'table' AND m.name NOT IN ('migrations', 'sqlite_sequence')"
    ).fetchall()
    return [row for row in found if row[1] not in ("id", "run", "counter")]


def test_each_column_refuses_values_of_another_type(database: Path) -> None:
    """Also one that a later migration added; the error names it, and nulls pass."""
    with open_history(database) as history:
        tested = columns(history)
        assert len(tested) > 100
        for table, name, kind in tested:
            for value in (BAD[kind], *([float("inf")] if kind == "REAL" else [])):
                with pytest.raises(sqlite3.IntegrityError, match=f"{table}.{name} takes no such"):
                    history.conn.execute(f"INSERT INTO {table} ({name}) VALUES (?)", (value,))


def test_a_change_to_another_type_is_refused(database: Path) -> None:
    """What is there cannot become what would be refused."""
    with open_history(database) as history:
        add_run(history.conn, 1, cpus=2)
        with pytest.raises(sqlite3.IntegrityError, match=r"runs\.cpus takes no such value"):
            history.conn.execute("UPDATE runs SET cpus = 'many'")
        history.conn.execute("UPDATE runs SET cpus = NULL, time_limit_s = 5")
        with (
            pytest.raises(HistoryError, match="takes no such value"),
            history.transaction() as conn,
        ):
            conn.execute("UPDATE runs SET state = x'00'")


def test_values_that_earlier_versions_took_are_cleared(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run stays; a row goes only where the faulty column may not be empty."""
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[: _before(schema.typed_columns)])
        with open_history(database) as history:
            for number in (1, 2, 3):
                add_run(history.conn, number, cpus="abc" if number == 2 else 4)
            history.conn.execute("UPDATE runs SET job_id = 'seven' WHERE id = 3")
            history.conn.execute("INSERT INTO loader_runs (run, batch_size) VALUES (1, 'abc')")
            history.conn.execute("INSERT INTO loader_runs (run, batch_size) VALUES (2, 32)")
    with open_history(database) as history:
        runs = history.conn.execute("SELECT id, cpus FROM runs ORDER BY id").fetchall()
        loaders = history.conn.execute("SELECT run, batch_size FROM loader_runs").fetchall()
    assert runs == [(1, 4), (2, None)]
    assert loaders == [(1, None), (2, 32.0)]


def _before(migration: schema.Migration) -> int:
    return schema.MIGRATIONS.index(migration)
