"""Waiting times in the report are of jobs, whatever the number of their nodes."""

from pathlib import Path
from typing import Any

import pytest

from slurm_ext.history.store.store import open_history
from tests.report.conftest import site
from tests.report.test_report_command import NOW_S, document, put_run, tables


def test_a_wait_counts_and_is_missing_once_a_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An imported job on many nodes is one of the median's, and its other nodes lack nothing."""
    open_history(tmp_path / "history.db").close()
    site(tmp_path)
    wide: dict[str, Any] = {
        "job_id": 7,
        "num_nodes": 8,
        "source": "sacct",
        "submit_s": NOW_S - 9000.0,
    }
    for number in range(8):
        put_run(tmp_path, number + 1, **wide, node=f"n{number}")
    put_run(tmp_path, 9, submit_s=NOW_S - 110.0)
    put_run(tmp_path, 10)
    told = tables(document(capsys, tmp_path, "--since", "2026-01-01"))
    (waits,) = told["queue", "waits"]
    assert waits["runs"] == 2
    (gap,) = [row for row in told["missing", "gaps"] if row["what"] == "waiting time"]
    assert (gap["runs"], gap["missing"]) == (3, 1)
