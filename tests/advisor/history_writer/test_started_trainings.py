"""A training starts when enough outcomes came in, and its end is reported."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.history_writer.retrain import Retrainer
from tests.advisor.history_writer.writer_examples import ANYTHING, settings


class Training:
    """A child that ends when it is told to."""

    made: list["Training"] = []  # noqa: RUF012 (the test empties it)

    def __init__(self, command: list[str], **files: Any) -> None:
        self.command, self.files, self.pid = command, files, 4242
        self.returncode: int | None = None
        self.made.append(self)

    def poll(self) -> int | None:
        """Its status."""
        return self.returncode


def test_a_training_starts_with_enough_outcomes_and_a_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One at a time, a minute apart, as a patient child with a log."""
    caplog.set_level(logging.INFO)
    clock, nice = [0.0], list[Any]()
    Training.made.clear()
    monkeypatch.setattr("slurm_ext.advisor.history_writer.retrain.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("slurm_ext.advisor.history_writer.retrain.subprocess.Popen", Training)
    monkeypatch.setattr(
        "slurm_ext.advisor.history_writer.retrain.os.setpriority", lambda *words: nice.append(words)
    )
    folded: list[int] = []  # how many trainings there were when the log was folded
    monkeypatch.setattr(
        "slurm_ext.advisor.history_writer.retrain.fold_log",
        lambda _: folded.append(len(Training.made)),
    )
    made = Retrainer(settings(tmp_path, advisor__retrain_after=3), tmp_path / "x.toml")
    made.outcomes = 2
    made.look(ANYTHING, 0.0)
    assert (Training.made, folded) == ([], [])
    made.outcomes = 3
    made.look(ANYTHING, 0.0)
    (child,) = Training.made
    assert child.command == [
        sys.executable,
        "-P",
        "-m",
        "slurm_ext.cli",
        "train",
        "--config",
        str(tmp_path / "x.toml"),
    ]
    log = child.files["stdout"]
    assert child.files == {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
    assert log.name == str(tmp_path / "train.log")
    assert (nice, made.outcomes) == ([(os.PRIO_PROCESS, 4242, 10)], 0)
    made.outcomes = 5
    clock[0] = 100.0
    made.look(ANYTHING, 0.0)
    assert len(Training.made) == 1  # the first one still works
    child.returncode = 3
    clock[0] = 59.9
    made.look(ANYTHING, 0.0)
    assert len(Training.made) == 1
    assert caplog.messages == ["training ended with status 3; see train.log"]
    clock[0] = 60.0
    made.look(ANYTHING, 0.0)
    assert len(Training.made) == 2
    assert folded == [0, 1]  # before each
    plain = Retrainer(settings(tmp_path), None)
    assert plain._command == [sys.executable, "-P", "-m", "slurm_ext.cli", "train"]


def test_a_training_ends_with_the_writer(tmp_path: Path) -> None:
    """None, one that has ended, and one that works."""
    made = Retrainer(settings(tmp_path), None)
    made.stop()
    with subprocess.Popen(["sleep", "60"]) as child:
        made._child = child
        made.stop()
        assert child.returncode == -signal.SIGTERM
        made.stop()
