"""The report's benchmark: a process of its own, its time and its memory."""

from pathlib import Path

import pytest

from contrib.bench.report import __main__ as report
from contrib.bench.report import history
from slurm_ext.core.errors import UsageError


def test_time_memory_and_size_are_measured(tmp_path: Path) -> None:
    """A history is written once, and what a report of it takes is told."""
    history.fill(tmp_path / "history.db", 200)
    assert report.made(tmp_path, 200) < 1e9
    told = report.measured(tmp_path, "json")
    assert told["seconds"] > 0
    assert told["peak_mib"] > 1
    assert (tmp_path / "report.json").stat().st_size > 1024 * (told["kib"] - 1)


def test_a_history_of_another_size_is_not_reported_as_the_one_asked_for(tmp_path: Path) -> None:
    """The folder of a quick run has fewer runs than a whole one; a cut fill is begun again."""
    (tmp_path / ".history.db").write_bytes(b"half of one")
    report.made(tmp_path, 100)
    with pytest.raises(UsageError, match="a history of 100 runs, not of 300"):
        report.made(tmp_path, 300)
