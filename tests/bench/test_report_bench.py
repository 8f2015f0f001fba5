"""The report's benchmark: a process of its own, its time and its memory."""

from pathlib import Path

from contrib.bench.report import __main__ as report
from contrib.bench.report import history


def test_time_memory_and_size_are_measured(tmp_path: Path) -> None:
    """A history is written once, and what a report of it takes is told."""
    history.fill(tmp_path / "history.db", 200)
    assert report.made(tmp_path, 200) < 1e9
    told = report.measured(tmp_path, "json")
    assert told["seconds"] > 0
    assert told["peak_mib"] > 1
    assert (tmp_path / "report.json").stat().st_size > 1024 * (told["kib"] - 1)
