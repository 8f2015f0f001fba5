"""Retention's moment, the messages of a history that cannot be used, and what a file must have."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from slurm_ext.core.errors import HistoryError, NoHistoryError
from slurm_ext.history.store import names, reading, retention, schema, store
from slurm_ext.history.store.column_types import drop_checks
from slurm_ext.history.store.reading import explained, explaining
from slurm_ext.history.store.retention import forget
from slurm_ext.history.store.store import History, open_history
from tests.history.conftest import add_counter, add_decision, add_run, insert


@pytest.fixture
def history(database: Path) -> Iterator[History]:
    """An empty one."""
    with open_history(database) as found:
        yield found


def column(history: History, sql: str) -> list[Any]:
    """The first column of what a query gives."""
    return [row[0] for row in history.conn.execute(sql)]


def add_move(history: History, name: str, at_s: float) -> None:
    """One action of a loop."""
    texts = dict.fromkeys(("kind", "mode", "subject", "done", "why", "before", "after"), "x")
    insert(history.conn, "moves", move_id=name, at_s=at_s, **texts)


def test_a_history_that_is_there_keeps_its_owner(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new one is the folder's owner's; who opens it later, be it root, gives it to nobody."""
    given: list[Path] = []
    monkeypatch.setattr(store, "chown_to_parent", given.append)
    for _ in range(2):
        open_history(database).close()
        assert given == [database]


def test_retention_of_each_table_ends_at_the_same_moment(history: History) -> None:
    """What is of that very moment stays; a run without an end goes by its arrival."""
    conn = history.conn
    for number, end_s, ingested_s in (
        (1, 99.9, 500.0),
        (2, 100.0, 0.0),
        (3, None, 99.9),
        (4, None, 100.0),
    ):
        add_run(conn, number, end_s=end_s, ingested_s=ingested_s)
        add_counter(conn, number, "cpu_user", 1.0)
        insert(conn, "corunners", run=number, job_id=9)
        insert(conn, "loader_runs", run=number)
    for token, decided_s in (("old", 99.9), ("edge", 100.0), ("of 1", 5.0), ("of 2", 5.0)):
        add_decision(conn, token, decided_s=decided_s)
    conn.execute("UPDATE runs SET decision = 'of ' || id")
    for name, at_s in (("old", 99.9), ("edge", 100.0)):
        add_move(history, name, at_s)
    insert(conn, "set_aside", name="n", source="s", reason="r", aside_s=1.0)
    assert forget(history, 100.0) == 2
    assert column(history, "SELECT id FROM runs ORDER BY id") == [2, 4]
    for table in ("counters", "corunners", "loader_runs"):
        assert column(history, f"SELECT run FROM {table} ORDER BY run") == [2, 4]
    assert column(history, "SELECT record_id FROM forgotten ORDER BY 1") == ["r1", "r3"]
    assert column(history, "SELECT token FROM decisions ORDER BY token") == ["edge", "of 2"]
    assert column(history, "SELECT move_id FROM moves") == ["edge"]
    assert column(history, "SELECT name FROM set_aside") == ["n"]
    assert forget(history, 100.0) == 0


@pytest.mark.parametrize("many", [0, 1, 2, 3, 4, 5])
def test_retention_goes_on_until_nothing_old_is_left(
    history: History, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """Two at a time here; of runs and of actions, whether the last chunk is full or not."""
    assert retention._CHUNK == 1000
    monkeypatch.setattr(retention, "_CHUNK", 2)
    for number in range(1, many + 1):
        add_run(history.conn, number)
        add_move(history, f"m{number}", 1.0)
    assert forget(history, 100.0) == many
    assert column(history, "SELECT count(*) FROM runs") == [0]
    assert column(history, "SELECT count(*) FROM moves") == [0]
    assert column(history, "SELECT count(*) FROM forgotten") == [many]


def sqlite_error(text: str, code: int | None) -> sqlite3.Error:
    """An error as SQLite raises it."""
    error = sqlite3.OperationalError(text)
    if code is not None:
        error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("x", sqlite3.SQLITE_BUSY, "is locked by another process; see `fuser -v` on it"),
        ("x", sqlite3.SQLITE_LOCKED, "is locked by another process; see `fuser -v` on it"),
        ("x", sqlite3.SQLITE_READONLY, "is read-only; check its owner, its mode, its folder's"),
        ("x", sqlite3.SQLITE_PERM, "may not be used by this user; check its owner and mode"),
        ("x", sqlite3.SQLITE_CANTOPEN, "cannot be opened; check that its folder exists"),
        ("x", sqlite3.SQLITE_FULL, "has no room left on its disk; nothing was written"),
        ("x", sqlite3.SQLITE_IOERR, "met an input/output error; nothing was written"),
        ("x", sqlite3.SQLITE_IOERR | 7 << 8, "met an input/output error; nothing was written"),
        ("x", sqlite3.SQLITE_CORRUPT, "is damaged; move it away with its -wal"),
        ("x", sqlite3.SQLITE_NOTADB, "is not an SQLite file; move it away and restore a backup"),
        ("odd", sqlite3.SQLITE_ERROR, "cannot be used: odd"),
        ("odd", None, "cannot be used: odd"),
        ("no such column: l.x", 1, "is from an older dlqueue; `dlqueue serve` brings it up to"),
        ("no such table: outcomes", 1, "is from an older dlqueue; `dlqueue serve` brings it up"),
        ("no such table: runs", sqlite3.SQLITE_ERROR, "cannot be used: no such table: runs"),
    ],
)
def test_what_sqlite_says_in_words_for_people(text: str, code: int | None, message: str) -> None:
    """The file, what is wrong with it, and what to do; extended codes mean the same."""
    found = str(explained(Path("/h.db"), sqlite_error(text, code)))
    assert found.startswith(f"/h.db {message}")


def test_errors_of_sqlite_are_explained_and_others_pass() -> None:
    """The cause is kept; a text that SQLite cannot spell is damage."""
    cause = sqlite_error("odd", None)
    with pytest.raises(HistoryError) as error, explaining(Path("/h.db")):
        raise cause
    assert error.value.__cause__ is cause
    with pytest.raises(HistoryError) as damage, explaining(Path("/h.db")):
        b"\xff".decode()
    wanted = "is damaged; move it away with its -wal and restore a backup"
    assert str(damage.value) == f"/h.db {wanted}"
    with pytest.raises(KeyError), explaining(Path("/h.db")):
        raise KeyError("x")


@pytest.mark.parametrize(
    ("size", "why"),
    [
        (1, "is truncated; move it away with its -wal and restore a backup"),
        (511, "is truncated; move it away with its -wal and restore a backup"),
        (512, None),
        (0, None),
    ],
)
def test_a_file_below_a_page_is_cut(tmp_path: Path, size: int, why: str | None) -> None:
    """SQLite's smallest is 512 bytes; an empty one is not begun yet."""
    path = tmp_path / "h.db"
    path.write_bytes(b"x" * size)
    if why is None:
        reading.check_size(path)
        return
    with pytest.raises(HistoryError) as error:
        reading.check_size(path)
    assert str(error.value) == f"{path} {why}"


def test_a_place_without_a_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing, an empty file, a folder, a file below a file, and one of another user's."""
    path = tmp_path / "h.db"
    with pytest.raises(NoHistoryError) as absent:
        reading.connect(path)
    assert str(absent.value) == f"{path} does not exist yet; `dlqueue serve` creates it"
    path.touch()
    with pytest.raises(NoHistoryError) as empty:
        reading.connect(path)
    assert str(empty.value) == f"{path} is empty yet; `dlqueue serve` sets it up"
    with pytest.raises(HistoryError) as folder:
        reading.connect(tmp_path)
    assert str(folder.value) == f"{tmp_path} is no file; move it away, or set paths.state_dir"
    with pytest.raises(HistoryError) as below:
        reading.connect(path / "x")
    assert str(below.value) == f"{path / 'x'} cannot be reached: Not a directory"
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.R_OK)
    with pytest.raises(HistoryError) as private:
        reading.check_size(path)
    wanted = "is not for this user; root, its owner and group may read it"
    assert str(private.value) == f"{path} {wanted}"


def test_another_programs_database_is_named(tmp_path: Path) -> None:
    """By the number in its header, which is dlqueue's own."""
    path = tmp_path / "h.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.close()
    for read_only in (True, False):
        with pytest.raises(HistoryError) as error:
            open_history(path, read_only=read_only)
        assert str(error.value) == f"{path} is not dlqueue's history; check paths.state_dir"
    assert reading.APPLICATION_ID.to_bytes(4) == b"dlqu"


def test_a_reader_waits_reads_and_never_writes(history: History) -> None:
    """From any thread, for as long as was asked; of a path with signs of a URL in it, too."""
    odd = history.path.with_name("a?b#c%20.db")
    open_history(odd).close()
    conn = reading.connect(odd, busy_timeout_ms=1250)
    assert conn.execute("PRAGMA busy_timeout").fetchone() == (1250,)
    assert conn.isolation_level is None
    found: list[Any] = []
    thread = Thread(target=lambda: found.extend(conn.execute("SELECT count(*) FROM runs")))
    thread.start()
    thread.join()
    assert found == [(0,)]
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        conn.execute("DELETE FROM runs")
    conn.close()
    default = reading.connect(odd)
    assert default.execute("PRAGMA busy_timeout").fetchone() == (5000,)
    default.close()


def test_a_writer_may_be_used_from_any_thread(history: History) -> None:
    """The advisor's keeper is another thread than the one that opened it."""
    thread = Thread(target=lambda: add_run(history.conn, 1))
    thread.start()
    thread.join()
    assert column(history, "SELECT id FROM runs") == [1]
    assert history.conn.execute("PRAGMA busy_timeout").fetchone() == (5000,)
    assert history.busy_timeout_s == 5.0


def test_a_transaction_is_all_or_nothing(history: History) -> None:
    """Whatever ends it; the lock is taken at once, and the next one begins anew."""

    def stopped() -> None:
        with history.transaction() as conn:
            add_run(conn, 1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert column(history, "SELECT id FROM runs") == []
    with history.transaction() as conn:
        other = sqlite3.connect(history.path, timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()
        add_run(conn, 2)
    assert column(history, "SELECT id FROM runs") == [2]


def test_a_history_that_is_gone_is_not_written(history: History) -> None:
    """Moved away, replaced or cut: each is named, before and after a commit."""
    path, away = history.path, history.path.with_name("away")
    assert not history.replaced()
    path.rename(away)
    wanted = f"{path} was moved away; restore it, or restart the advisor"
    with pytest.raises(HistoryError) as gone, history.transaction():
        pass
    assert str(gone.value) == wanted
    assert not history.replaced()
    path.write_bytes(away.read_bytes())
    assert history.replaced()
    with pytest.raises(HistoryError) as replaced, history.transaction():
        pass
    assert str(replaced.value) == wanted
    away.rename(path)
    with pytest.raises(HistoryError) as meanwhile, history.transaction():
        path.rename(away)
    assert str(meanwhile.value) == wanted
    away.rename(path)
    with history.transaction():
        pass


def test_a_history_that_was_cut_is_not_written(history: History) -> None:
    """A byte is enough, and it may never shrink below what it was before."""
    size = history.path.stat().st_size
    os.truncate(history.path, size + 1)
    with history.transaction():
        pass
    os.truncate(history.path, size)
    with pytest.raises(HistoryError) as cut, history.transaction():
        pass
    wanted = "was truncated; move it away with its -wal and restore a backup"
    assert str(cut.value) == f"{history.path} {wanted}"


def test_a_history_in_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """The system's reason."""
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "h.db"
    with pytest.raises(HistoryError) as error:
        open_history(path)
    assert str(error.value).startswith(f"{path} cannot be created: ")
    made = tmp_path / "a" / "b" / "h.db"
    open_history(made).close()
    assert made.stat().st_mode & 0o777 == 0o640


def test_versions_that_differ_are_told(history: History) -> None:
    """What a newer one has is listed in order; an older one is brought up to date by the server."""
    path = history.path
    for name in ("warp", "beam"):
        insert(history.conn, "migrations", name=name, applied_s=1.0)
    with pytest.raises(HistoryError) as newer:
        open_history(path)
    assert str(newer.value) == (
        f"{path} was written by a newer dlqueue (it has beam, warp); upgrade dlqueue, or restore"
        " the copy made before that upgrade"
    )
    for name in ("warp", "beam", "view_of_outcomes"):
        history.conn.execute("DELETE FROM migrations WHERE name = ?", (name,))
    with pytest.raises(HistoryError) as older:
        open_history(path, read_only=True)
    wanted = "is from an older dlqueue; `dlqueue serve` brings it up to date"
    assert str(older.value) == f"{path} {wanted}"


def test_migrations_are_applied_in_their_order(history: History, tmp_path: Path) -> None:
    """Those that are not done yet, whichever they are; each is noted with its time."""
    every = [migration.__name__ for migration in schema.MIGRATIONS]
    assert schema.applied(history.conn) == every
    assert schema.applied(sqlite3.connect(":memory:")) == []
    waiting = schema.pending([every[0], every[2]], tmp_path)
    assert [one.__name__ for one in waiting] == [every[1], *every[3:]]
    assert schema.pending(every, tmp_path) == []
    times = column(history, "SELECT applied_s FROM migrations")
    assert all(at_s > 1.6e9 for at_s in times)


@pytest.mark.parametrize(
    ("code", "timeout_s"), [(sqlite3.SQLITE_BUSY, 0.0), (sqlite3.SQLITE_READONLY, 9.0)]
)
def test_write_ahead_is_tried_again_only_while_it_is_busy(code: int, timeout_s: float) -> None:
    """And only until the time is over; any other fault is told at once."""

    class Refusing:
        tries = 0

        def execute(self, _: str) -> None:
            self.tries += 1
            raise sqlite_error("x", code)

    conn: Any = Refusing()
    with pytest.raises(sqlite3.OperationalError):
        store._journal_ahead(conn, timeout_s)
    assert conn.tries == 1


def test_names_of_columns() -> None:
    """One key column for each level, in the order of levels; accounting's own source."""
    keys = ("key_script_args", "key_script", "key_user_name", "key_kind", "key_cluster")
    assert keys == names.KEY_COLUMNS == schema.KEY_COLUMNS
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
    },
    "runs": {
        "node_gpu_model": "TEXT",
        "gpu_energy_j": "REAL",
        "node_energy_j": "REAL",
        "mps": "TEXT",
    },
    "decisions": {"sharing": "TEXT", "elastic": "TEXT"},
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


def test_the_columns_of_outcomes(history: History) -> None:
    """What the report and `explain` read of it."""
    cursor = history.conn.execute("SELECT * FROM outcomes")
    assert [column[0] for column in cursor.description] == [
        *("decision", "token", "mode", "action", "holdout", "acted", "level", "runs", "factor"),
        *("before_samples_per_s", "after_samples_per_s", "predicted", "low", "high", "achieved"),
        *("run", "end_s"),
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
