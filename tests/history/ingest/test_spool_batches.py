"""Batches of the spool folder: bounds, faults and quarantine."""

import errno
from hashlib import sha256
from pathlib import Path

import pytest

from slurm_ext.core.errors import HistoryError
from slurm_ext.history.ingest import journal, spool_folder
from slurm_ext.history.ingest.proposals import MAX_LINE_BYTES, line_of
from slurm_ext.history.ingest.quarantine import quarantine
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import History
from slurm_ext.node.record.reader import read_raw
from tests.history.conftest import Spool
from tests.history.ingest.ingest_examples import proposal


@pytest.mark.parametrize(
    ("records", "size", "batches"),
    [(2, 1 << 20, [2, 1]), (3, 1 << 20, [3]), (9, 1, [1, 1, 1]), (9, 1 << 20, [3])],
)
def test_batches_are_bounded(
    history: History,
    spool: Spool,
    monkeypatch: pytest.MonkeyPatch,
    records: int,
    size: int,
    batches: list[int],
) -> None:
    """In number and in bytes; each is read, inserted, committed and deleted in this order."""
    assert (spool_folder.BATCH_RECORDS, spool_folder.BATCH_BYTES) == (500, 16 << 20)
    monkeypatch.setattr(spool_folder, "BATCH_RECORDS", records)
    monkeypatch.setattr(spool_folder, "BATCH_BYTES", size)
    for number in range(3):
        spool(f"{number}.json", record_id=f"r{number}")
    steps: list[str] = []
    folder = history.path.parent / "spool"
    report = ingest_folder(history, folder, now_s=1.0, step=steps.append)
    assert (report.taken, report.duplicates, report.left) == (3, 0, 0)
    assert steps == [
        step
        for many in batches
        for step in ("read", *["insert"] * many, "committed", *["delete"] * many)
    ]
    assert list(folder.iterdir()) == []


def test_files_that_are_gone_or_cannot_be_read_do_not_hide_the_others(
    history: History, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that another ingester took is not counted; each that the disk refuses now stays."""
    for number in range(6):
        spool(f"{number}.json", record_id=f"r{number}")
    faults = {"0": FileNotFoundError(), "1": OSError(errno.EIO, "I/O"), "3": FileNotFoundError()}
    faults["4"] = OSError(errno.ESTALE, "stale")

    def read(path: Path) -> bytes:
        if path.stem in faults:
            raise faults[path.stem]
        return read_raw(path)

    monkeypatch.setattr(spool_folder, "read_raw", read)
    folder = history.path.parent / "spool"
    report = ingest_folder(history, folder, now_s=1.0)
    assert (report.taken, report.quarantined, report.left) == (2, 0, 2)
    assert sorted(path.stem for path in folder.iterdir()) == ["0", "1", "3", "4"]


def test_a_spool_that_is_no_folder_is_named(history: History) -> None:
    """With the system's reason."""
    with pytest.raises(HistoryError) as error:
        ingest_folder(history, history.path, now_s=0.0)
    assert str(error.value) == f"the spool {history.path} cannot be listed: Not a directory"


def test_aside_on_another_disk_is_a_hidden_folder_of_the_spool(
    history: History, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Private as well; any other fault of the disk is told, and the file stays."""
    path, rename = spool("bad.json"), Path.rename
    refusal = errno.EXDEV

    def across(self: Path, target: Path) -> Path:
        if target.parent.name == "aside":
            raise OSError(refusal, "refused")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", across)
    refusal = errno.EACCES
    with pytest.raises(OSError, match="refused"):
        quarantine(history, path, "torn", None, now_s=3.0)
    assert path.exists()
    refusal = errno.EXDEV
    quarantine(history, path, "torn", None, now_s=3.0)
    near = path.parent / ".aside"
    assert near.stat().st_mode & 0o777 == 0o700
    (name,) = history.conn.execute("SELECT name FROM set_aside").fetchone()
    assert [found.name for found in near.iterdir()] == [name]
    path = spool("worse.json")
    quarantine(history, path, "torn", None, now_s=3.0)
    assert not path.exists()


def test_a_line_as_long_as_any_is_read_and_a_longer_one_named(history: History) -> None:
    """64 KiB with its newline; the note has the line's size and fingerprint."""
    assert MAX_LINE_BYTES == 65536
    spare = MAX_LINE_BYTES - len(line_of(proposal(message="")))
    fits, long = (line_of(proposal(message="x" * n)).encode() for n in (spare, spare + 1))
    assert len(fits) == MAX_LINE_BYTES
    path = history.path.with_name("journal-1")
    path.write_bytes(long + fits)
    report = journal.record_journal(history, path, now_s=9.0)
    assert (report.new, report.bad_lines) == (1, 1)
    digest = sha256(long).hexdigest()
    (note,) = history.conn.execute("SELECT * FROM set_aside").fetchall()
    reason = "journal: a line of 65537 bytes, at most 65536"
    assert note == (f"journal-1-line-{digest[:16]}", str(path), reason, digest, 65537, 9.0, None)
