"""The history writer enters what cluster loops did."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from slurm_ext.advisor.history_writer.writer import HistoryWriter
from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.core.actions import Action
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.ingest.actions import actions_of, record_actions
from slurm_ext.history.ingest.journal import JournalReport
from slurm_ext.history.store.store import History, open_history
from tests.advisor.a_service import Service, until


def a_move() -> Action:
    """Something that was done to job 7 just now, so that retention keeps it."""
    now_s = time.time()
    return Action(
        at_s=now_s, kind="queue", mode="act", subject="7", job_id=7, done="nice=9", why="long"
    )


def test_moves_appear_while_the_advisor_serves(service: Service) -> None:
    """A loop writes, the history writer reads: within a round."""
    ActionLog(service.folder / "state", "queue").write([a_move()])

    def entered() -> bool:
        with closing(sqlite3.connect(service.folder / "state" / "history.db")) as conn:
            try:
                found = conn.execute("SELECT job_id, done FROM moves").fetchall()
            except sqlite3.OperationalError:  # it is being set up
                return False
            return found == [(7, "nice=9")]

    until(entered, "the move in the history")


def test_bad_lines_are_said_and_an_unreadable_file_hides_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One loop's ledger does not stop the others'."""
    for kind in ("energy", "queue"):
        ActionLog(tmp_path, kind).write([a_move()])
    bad, good = sorted((tmp_path / "moves").iterdir())
    with good.open("a") as stream:
        stream.write("hello\n")

    def refusing(history: History, path: Path, *, now_s: float) -> JournalReport:
        if path == bad:
            raise PermissionError(13, "Permission denied", str(path))
        return record_actions(history, path, now_s=now_s)

    monkeypatch.setattr("slurm_ext.advisor.history_writer.writer.record_actions", refusing)
    writer = HistoryWriter(Settings(values={"paths.state_dir": str(tmp_path)}), None)
    with open_history(tmp_path / "history.db") as history:
        with pytest.raises(PermissionError):
            writer.take_moves(history, 1.0)
        assert [one["done"] for one in actions_of(history, 7)] == ["nice=9"]
    assert "1 lines are no moves" in caplog.text
