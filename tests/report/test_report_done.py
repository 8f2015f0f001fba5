"""The report says what was done: not what Slurm refused, and also what sharing did."""

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.history.store.store import open_history
from tests.report.conftest import site
from tests.report.test_gain import decide
from tests.report.test_report_command import document, tables
from tests.report.test_report_others import move


def answer(told: dict[str, Any], key: str) -> str:
    """One section's answer."""
    (said,) = (section["answer"] for section in told["sections"] if section["key"] == key)
    return str(said)


def test_a_refused_move_was_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a move that was made, a refused one and one in shadow, the first alone was made."""
    site(tmp_path)
    with open_history(tmp_path / "history.db") as history:
        refused = "failed: Invalid job id specified"
        for number, outcome in enumerate(("done", refused, None)):
            mode = "shadow" if outcome is None else "act"
            more = {"move_id": f"m{number}", "mode": mode, "outcome": outcome}
            move(history, "queue", number + 1, **more)
    told = document(capsys, tmp_path)
    assert answer(told, "queue").endswith("; 1 move made")
    rows = tables(told)["queue", "moves"]
    found = [(row["mode"], row["moves"], row["refused"], row["known"]) for row in rows]
    assert found == [("act", 2, 1, 2), ("shadow", 1, 0, 0)]


def test_a_job_that_was_given_a_part_of_a_gpu_was_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sharing's own mode decides that, whatever else was decided, and never of a control job."""
    site(tmp_path)
    shared: dict[str, Any] = {"sharing": json.dumps({"mode": "act", "share": True, "done": True})}
    kept: dict[str, Any] = {"sharing": json.dumps({"mode": "shadow", "share": True, "done": False})}
    with open_history(tmp_path / "history.db") as history:
        decide(history, 1, action="leave")
        decide(history, 2, action="leave", mode="shadow", **shared)
        decide(history, 3, action="leave", mode="shadow", **kept)
        decide(history, 4, **shared)
        decide(history, 5, mode="advise", **shared)
        decide(history, 6, holdout=1, **shared)
        decide(history, 7)
    told = document(capsys, tmp_path)
    assert answer(told, "ledger") == "7 decisions, 4 jobs changed"
    done = {row["job_id"]: row["done"] for row in tables(told)["ledger", "last"]}
    part = "given part of a GPU"
    assert [done[number] for number in (1, 2, 3)] == ["left", part, "left"]
    assert [done[number] for number in (4, 5)] == [f"changed, {part}", part]
    assert [done[number] for number in (6, 7)] == ["control", "changed"]
    assert sum(row["changed"] for row in tables(told)["ledger", "counts"]) == 4
