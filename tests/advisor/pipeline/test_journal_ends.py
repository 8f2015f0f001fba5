"""The journal's writing end, where the disk leaves it in the lurch."""

import os
import shutil
from pathlib import Path

import pytest

from slurm_ext.advisor.pipeline import journal as journal_file
from slurm_ext.advisor.pipeline.journal import Journal, journals


def test_no_new_file_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed too early, its number would be another file's: the ledger would be written there."""
    monkeypatch.setattr(journal_file, "ROTATE_BYTES", 4)
    journal = Journal(tmp_path / "journal")
    journal.append("abc\n")
    shutil.rmtree(tmp_path / "journal")
    with pytest.raises(FileNotFoundError):
        journal.append("def\n")
    with (tmp_path / "another").open("wb") as another:
        with pytest.raises(FileNotFoundError):
            journal.append("ghi\n")
        assert os.fstat(another.fileno()).st_size == 0
    (tmp_path / "journal").mkdir()
    journal.append("jkl\n")
    journal.close()
    assert [path.read_text() for path in journals(tmp_path / "journal")] == ["jkl\n"]


def test_a_torn_line_joins_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk takes half of it: what comes next goes into a file of its own."""
    journal = Journal(tmp_path)
    journal.append("one\n")
    with monkeypatch.context() as full:
        real = os.write
        full.setattr(os, "write", lambda file, raw: real(file, raw[:2]))
        with pytest.raises(OSError, match="full"):
            journal.append("two\n")
    journal.append("three\n")
    journal.close()
    assert [path.read_text() for path in journals(tmp_path)] == ["one\ntw", "three\n"]
