"""A value that SQLite refuses costs its own record, never the batch it came in."""

import sqlite3
from pathlib import Path

import pytest

from slurm_ext.core.errors import HistoryError
from slurm_ext.history.ingest import insert
from slurm_ext.history.ingest.rows import RecordRows
from slurm_ext.history.ingest.spool_folder import IngestReport, ingest_folder
from slurm_ext.history.store.store import open_history
from tests.history.conftest import Spool

REFUSALS = (
    sqlite3.IntegrityError("NOT NULL constraint failed"),
    sqlite3.ProgrammingError("type 'list' is not supported"),
    sqlite3.DataError("string or blob too big"),
    OverflowError("Python int too large to convert to SQLite INTEGER"),
    UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
)


def refuse(monkeypatch: pytest.MonkeyPatch, job_name: str, error: Exception) -> None:
    """Have the insertion of one job's record fail half-way."""
    evidence = insert.Inserter._evidence

    def failing(self: insert.Inserter, run: int | None, rows: RecordRows, now_s: float) -> None:
        evidence(self, run, rows, now_s)
        if rows.run.job_name == job_name:
            raise error

    monkeypatch.setattr(insert.Inserter, "_evidence", failing)


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_the_culprit_is_quarantined_and_the_rest_of_the_batch_taken(
    database: Path, spool: Spool, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """With its bytes and the reason; nothing of it is left in the history."""
    refuse(monkeypatch, "bad", error)
    for number in range(5):
        name = "bad" if number == 2 else "good"
        spool(f"{number}.json", record_id=f"r{number}", identity={"job_name": name})
    bad = (database.parent / "spool" / "2.json").read_bytes()
    with open_history(database) as history:
        report = ingest_folder(history, database.parent / "spool", now_s=2e9)
        assert report == IngestReport(taken=4, quarantined=1)
        ids = history.conn.execute("SELECT record_id FROM runs ORDER BY 1").fetchall()
        assert ids == [("r0",), ("r1",), ("r3",), ("r4",)]
        ((name, reason, size),) = history.conn.execute(
            "SELECT name, reason, size_bytes FROM set_aside"
        ).fetchall()
        counts = history.conn.execute("SELECT count(DISTINCT run) FROM counters").fetchone()
    assert (counts, size) == ((4,), len(bad))
    assert str(error) in reason
    assert (database.parent / "aside" / name).read_bytes() == bad
    assert list((database.parent / "spool").iterdir()) == []


def test_a_fault_of_the_file_is_no_records_fault(
    database: Path, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails leaves the spool as it was, and nothing is quarantined."""
    refuse(monkeypatch, "train.sh", sqlite3.OperationalError("disk I/O error"))
    file = spool()
    with open_history(database) as history:
        with pytest.raises(HistoryError):
            ingest_folder(history, database.parent / "spool", now_s=2e9)
        assert history.conn.execute("SELECT count(*) FROM set_aside").fetchone() == (0,)
    assert file.exists()


@pytest.mark.parametrize("value", [[1], "abc", -1, {"a": 1}], ids=str)
def test_a_loader_of_any_shape_poisons_no_batch(
    database: Path, spool: Spool, value: object
) -> None:
    """The user's process may write anything as its batch size: its run counts, without evidence."""
    loader = {"phases": [], "batch_size": value}
    spool("bad.json", record_id="bad", probe={"summaries": [{"loaders": [loader]}], "faults": []})
    spool("good.json")
    with open_history(database) as history:
        report = ingest_folder(history, database.parent / "spool", now_s=2e9)
        assert report == IngestReport(taken=2)
        assert history.conn.execute("SELECT count(*) FROM loader_runs").fetchone() == (1,)
