"""The messages of a history that cannot be used, and what a file must have."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from slurm_ext.core.errors import HistoryError, NoHistoryError
from slurm_ext.history.store import reading, schema, store
from slurm_ext.history.store.reading import explained, explaining
from slurm_ext.history.store.store import History, open_history
from tests.history.conftest import add_run, insert
from tests.history.store.rows_by_hand import column


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
    how = "`dlqueue serve` creates it, `dlqueue run` one of your own"
    assert str(absent.value) == f"{path} does not exist yet; {how}"
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


def test_a_cut_is_seen_after_somebody_folded_the_log(history: History) -> None:
    """The file may have grown by that, and be cut to more than this process knew of it."""
    with history.transaction() as conn:
        conn.executemany(
            "INSERT INTO journals VALUES (?, 0)", [(f"{n:0200}",) for n in range(2000)]
        )
    known = history.path.stat().st_size
    with closing(sqlite3.connect(history.path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = history.path.stat().st_size
    assert known < whole
    os.truncate(history.path, (known + whole) // 2)
    with pytest.raises(HistoryError, match="was truncated"), history.transaction():
        pass


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
