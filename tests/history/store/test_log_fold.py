"""The write-ahead log is emptied while nobody reads."""

import sqlite3
from pathlib import Path

import pytest

from slurm_ext.history.store.log_fold import fold_log
from slurm_ext.history.store.reading import connect
from slurm_ext.history.store.store import History, open_history


@pytest.fixture
def history(tmp_path: Path) -> History:
    """One with a log."""
    history = open_history(tmp_path / "history.db")
    written(history, "before")
    return history


def written(history: History, key: str) -> None:
    """One row more."""
    with history.transaction() as conn:
        conn.execute("INSERT INTO forgotten (record_id) VALUES (?)", (key,))


def log_bytes(history: History) -> int:
    """Size of the log."""
    return history.path.with_name(f"{history.path.name}-wal").stat().st_size


def test_the_log_is_empty_and_every_row_there(history: History) -> None:
    """The file is neither cut nor moved, so that writing goes on; waiting is as before."""
    assert log_bytes(history) > 0
    assert fold_log(history)
    assert log_bytes(history) == 0
    written(history, "after")
    assert fold_log(history)
    with connect(history.path) as conn:
        assert conn.execute("SELECT count(*) FROM forgotten").fetchone() == (2,)
    (wait_ms,) = history.conn.execute("PRAGMA busy_timeout").fetchone()
    assert wait_ms == round(1000 * history.busy_timeout_s)


def test_a_reader_keeps_its_rows(history: History) -> None:
    """What it began to read stays as it was; the log is folded when it has ended."""
    reader = connect(history.path)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM forgotten").fetchone() == (1,)
    written(history, "after")
    assert not fold_log(history, wait_s=0.05)
    assert reader.execute("SELECT count(*) FROM forgotten").fetchone() == (1,)
    reader.close()
    assert fold_log(history)
    assert log_bytes(history) == 0


def test_an_error_leaves_the_log(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, say: nothing is lost, and the writer goes on."""

    class Full:
        """A connection whose disk is full."""

        def execute(self, words: str) -> object:
            """As sqlite3 has it."""
            if "wal_checkpoint" in words:
                raise sqlite3.OperationalError("database or disk is full")
            return self

    monkeypatch.setattr(history, "conn", Full())
    assert not fold_log(history)
