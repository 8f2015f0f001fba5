"""One fault never stops the rest: tasks of the history writer, its process, and its training."""

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from slurm_ext.advisor.history_writer import retrain
from slurm_ext.advisor.history_writer.retrain import Retrainer
from slurm_ext.advisor.history_writer.writer import PeriodicTask
from slurm_ext.advisor.service import child_process
from slurm_ext.advisor.service.child_process import HistoryWriterProcess
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.store.store import History
from tests.whole import until

HISTORY = cast(History, None)  # no task here looks at it


def test_a_fault_in_one_task_does_not_end_the_history_writer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Records are taken in even where the comparison with Slurm meets what nobody thought of."""
    told: list[float] = []

    def broken(_: History, __: float) -> None:
        raise KeyError("StartTime")

    odd = PeriodicTask("reconcile", 0.0, broken)
    sound = PeriodicTask("spool", 0.0, lambda _, now_s: told.append(now_s))
    for clock_s in (1.0, 2.0):
        for task in (odd, sound):
            task.do(HISTORY, clock_s)
    assert len(told) == 2
    (said,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert said.getMessage() == "reconcile: KeyError('StartTime')"
    assert said.exc_info


def test_a_history_writer_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No process left for a moment is no reason to have no history until the next restart."""
    starts: list[object] = []
    real = subprocess.Popen

    def scarce(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        starts.append(command)
        if len(starts) == 1:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return real([sys.executable, "-c", "import sys; sys.stdin.read()"], **options)

    monkeypatch.setattr(child_process, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(subprocess, "Popen", scarce)
    writer = HistoryWriterProcess(None)
    writer.start()
    until(lambda: len(starts) == 2 and writer._child is not None, "no second start")
    writer.stop()
    writer.join()
    assert "could not be started (Resource temporarily unavailable)" in caplog.text


def test_a_training_that_cannot_be_started_is_due_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its outcomes are not forgotten."""

    def none_left(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    trainer = Retrainer(Settings(values={"paths.state_dir": str(tmp_path)}), None)
    trainer.outcomes = trainer.after
    monkeypatch.setattr(retrain, "fold_log", lambda _: True)
    monkeypatch.setattr(subprocess, "Popen", none_left)
    with pytest.raises(BlockingIOError):
        trainer.look(HISTORY, 0.0)
    assert trainer.outcomes == trainer.after


def test_a_training_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advisor's end does not wait for one that is deaf to SIGTERM."""
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); "
    trainer = Retrainer(Settings(values={"paths.state_dir": str(tmp_path)}), None)
    trainer._command = [sys.executable, "-c", deaf + "signal.pause()"]
    trainer.outcomes = trainer.after
    monkeypatch.setattr(retrain, "END_WAIT_S", 0.05)
    monkeypatch.setattr(retrain, "fold_log", lambda _: True)
    trainer.look(HISTORY, 0.0)
    until(lambda: (tmp_path / "train.log").stat().st_size > 0, "it says nothing")
    child = trainer._child
    assert child is not None
    trainer.stop()
    assert child.returncode == -9
