"""Columns hold values of their type: what earlier versions took is cleared, the like is refused."""

import sqlite3
from pathlib import Path

import pytest

from slurm_ext.core.errors import HistoryError
from slurm_ext.history.store import schema
from slurm_ext.history.store.column_types import checked_tables, drop_checks
from slurm_ext.history.store.store import History, open_history
from tests.history.conftest import add_run

BAD = {
    "INTEGER": ("abc", "", b"7", 3.5, 2.0**63, float("inf")),
    "REAL": ("abc", "", b"7", 2e300, -2e300, float("inf")),
    "TEXT": (b"", b"x"),
    "BLOB": ("abc", "", 7, 0.5),
}
GOOD = {
    "INTEGER": (None, 0, -7, 3.0, "12", 2**63 - 1, -(2**63)),
    "REAL": (None, 0, 0.5, -1e300, "2.5", 2**63 - 1),
    "TEXT": (None, "", "abc", 7, 0.5),
    "BLOB": (None, b"", b"abc"),
}


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
            for value in BAD[kind]:
                with pytest.raises(sqlite3.IntegrityError, match=f"{table}.{name} takes no such"):
                    history.conn.execute(f"INSERT INTO {table} ({name}) VALUES (?)", (value,))


def test_each_column_takes_values_of_its_type(database: Path) -> None:
    """Null, the largest and what SQLite makes its type of: no more is refused than cannot be."""
    with open_history(database) as history:
        add_run(history.conn, 1)
        for name, kind in [
            (name, kind) for table, name, kind in columns(history) if table == "runs"
        ]:
            required = history.conn.execute(
                "SELECT 1 FROM pragma_table_info('runs') WHERE name = ? AND \"notnull\"", (name,)
            ).fetchone()
            for value in GOOD[kind][1 if required else 0 :]:
                history.conn.execute(f"UPDATE runs SET {name} = ?", (value,))


def test_histories_of_before_get_the_lighter_checks(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every table that was checked still is, in both ways, and what is there stays."""
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[: _before(schema.lighter_checks)])
        with open_history(database) as history:
            add_run(history.conn, 1, cpus=4)
            checked = checked_tables(history.db)
            for table in checked:
                drop_checks(history.db, table)
                for event in ("insert", "update"):
                    history.conn.execute(
                        f"CREATE TRIGGER {table}_{event}_types BEFORE {event} ON {table}"
                        " BEGIN SELECT typeof(1); END"
                    )
    with open_history(database) as history:
        assert sorted(checked_tables(history.db)) == sorted(checked)  # later ones redraw tables
        old = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%typeof%'"
        assert history.conn.execute(old).fetchall() == []
        with pytest.raises(sqlite3.IntegrityError, match=r"runs\.cpus takes no such value"):
            history.conn.execute("UPDATE runs SET cpus = 'many'")


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
