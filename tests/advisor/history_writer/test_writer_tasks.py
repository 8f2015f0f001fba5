"""Periodic tasks of the history writer: order, pace and failures."""

import logging
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.advisor.history_writer import writer
from slurm_ext.advisor.history_writer.writer import HistoryWriter, ParentPipe, PeriodicTask
from slurm_ext.core.errors import (
    DlqueueError,
    HistoryError,
    InputError,
    SlurmError,
)
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.store.store import open_history
from tests.advisor.history_writer.writer_examples import ANYTHING, settings


def test_a_task_comes_again_after_its_pause(caplog: pytest.LogCaptureFixture) -> None:
    """A failure is said once until it changes or passes."""
    faults: list[Exception | None] = []
    calls: list[float] = []

    def act(history: Any, now_s: float) -> None:
        assert history is ANYTHING
        calls.append(now_s)
        if (fault := faults.pop(0)) is not None:
            raise fault

    task = PeriodicTask("spool", 5.0, act)
    slow = InputError("f", "slow")
    faults += [None, slow, slow, None, slow, OSError(5, "disk"), KeyError("x")]
    for clock_s in (0.0, 4.9, 5.0, 10.0, 14.9, 15.0, 20.0, 25.0, 30.0):
        task.do(ANYTHING, clock_s)
    assert len(calls) == 7
    assert min(calls) > 1e9
    warned = [(one.getMessage(), bool(one.exc_info)) for one in caplog.records]
    assert warned == [
        ("spool: f: slow", False),
        ("spool: f: slow", False),
        ("spool: [Errno 5] disk", False),
        ("spool: KeyError('x')", True),
    ]


def test_a_writer_has_seven_tasks_in_order(tmp_path: Path) -> None:
    """Journal before spool, so that runs find their proposals."""
    made = HistoryWriter(settings(tmp_path, advisor__reconcile_s=7.0), None)
    assert [(task.name, task.every_s) for task in made._tasks] == [
        ("journal", 0.0),
        ("spool", 0.0),
        ("moves", 0.0),
        ("reconcile", 7.0),
        ("ends", 60.0),
        ("retention", 21600.0),
        ("retraining", 0.0),
    ]


def test_a_round_asks_each_task_with_the_history_and_one_clock(tmp_path: Path) -> None:
    """A task whose time has come acts on that history; one that just acted waits."""
    made = HistoryWriter(settings(tmp_path), None)
    acted: list[tuple[str, Any]] = []
    names = ("always", "rarely")
    made._tasks = tuple(
        PeriodicTask(name, every_s, lambda history, _now, name=name: acted.append((name, history)))  # type: ignore[misc]  # name is bound here
        for name, every_s in zip(names, (0.0, 3600.0), strict=True)
    )
    made.round(ANYTHING)
    made.round(ANYTHING)
    assert acted == [("always", ANYTHING), ("rarely", ANYTHING), ("always", ANYTHING)]


def test_a_writer_goes_on_with_new_settings(tmp_path: Path) -> None:
    """As the file has them now."""
    config = tmp_path / "dlqueue.toml"
    text = f'paths.state_dir = "{tmp_path}"\n'
    config.write_text(text)
    made = HistoryWriter(settings(tmp_path), config)
    config.write_text(f"{text}advisor.retrain_after = 77\nadvisor.reconcile_s = 9.0\n")
    changed = made.reload_settings()
    assert changed["advisor.reconcile_s"] == 9.0
    assert made._retrainer.after == 77
    assert [task.every_s for task in made._tasks if task.name == "reconcile"] == [9.0]


def test_records_count_as_outcomes_and_bad_ones_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken and replaced ones; what cannot be read is set aside."""
    made = HistoryWriter(settings(tmp_path), None)
    calls: list[Any] = []

    def ingest(history: Any, folder: Path, *, now_s: float) -> Any:
        calls.append((history, folder, now_s))
        return SimpleNamespace(taken=3, replaced=2, quarantined=len(calls) - 1)

    monkeypatch.setattr(writer, "ingest_folder", ingest)
    made.take_spool(ANYTHING, 5.0)
    assert caplog.messages == []
    made.take_spool(ANYTHING, 6.0)
    assert made._retrainer.outcomes == 10
    assert calls[0] == (ANYTHING, tmp_path / "spool", 5.0)
    assert caplog.messages == ["1 records cannot be read and were set aside"]


def test_old_runs_are_dropped_by_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the settings say."""
    calls: list[Any] = []
    monkeypatch.setattr(writer, "forget", lambda *arguments: calls.append(arguments))
    made = HistoryWriter(settings(tmp_path, history__retention_days=2), None)
    made.forget_old(ANYTHING, 1_000_000.0)
    assert calls == [(ANYTHING, 1_000_000.0 - 2 * 86400.0)]


def test_all_journals_are_read_and_old_ones_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the newest, which may still grow: only there half a line waits for its rest."""
    folder = tmp_path / "journal"
    folder.mkdir()
    for name in ("2.jsonl", "1.jsonl", "3.jsonl", "x.txt"):
        (folder / name).touch()
    calls: list[Any] = []
    monkeypatch.setattr(
        writer, "record_journal", lambda _h, path, **options: calls.append((path.name, options))
    )
    monkeypatch.setattr(writer, "delete_if_recorded", lambda _h, path: calls.append(path.name))
    HistoryWriter(settings(tmp_path), None).take_journals(ANYTHING, 5.0)
    assert calls == [
        ("1.jsonl", {"now_s": 5.0, "rest": True}),
        ("2.jsonl", {"now_s": 5.0, "rest": True}),
        ("3.jsonl", {"now_s": 5.0, "rest": False}),
        "1.jsonl",
        "2.jsonl",
    ]


def test_every_file_of_moves_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that cannot be read hides no other, and is said at the end."""
    files = [tmp_path / name for name in "abc"]
    folders: list[Path] = []

    def listed(folder: Path) -> list[Path]:
        folders.append(folder)
        return files

    def recorded(_: Any, path: Path, *, now_s: float) -> Any:
        assert now_s == 5.0
        if path.name == "a":
            raise OSError(13, "denied")
        return SimpleNamespace(bad_lines=2 if path.name == "b" else 0)

    monkeypatch.setattr(writer, "action_files", listed)
    monkeypatch.setattr(writer, "record_actions", recorded)
    made = HistoryWriter(settings(tmp_path), None)
    with pytest.raises(OSError, match="denied"):
        made.take_moves(ANYTHING, 5.0)
    assert folders == [tmp_path / "moves"]
    assert caplog.messages == [f"{files[1]}: 2 lines are no moves; noted"]


def test_the_parents_pipe_tells_bytes_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte asks for the settings; the end is the server's."""
    read, write = os.pipe()
    calls: list[int] = []
    with os.fdopen(read) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        pipe = ParentPipe(lambda: calls.append(1))
        assert pipe.ended(0.0) is False
        assert calls == []
        os.write(write, b"\n")
        assert pipe.ended(5.0) is False
        assert calls == [1]
        os.close(write)
        assert pipe.ended(5.0) is True
        assert calls == [1]


def test_settings_that_are_wrong_leave_the_old_ones(caplog: pytest.LogCaptureFixture) -> None:
    """Sound ones reach the stream, too."""
    caplog.set_level(logging.INFO)
    taken: list[Settings] = []
    receiver: Any = SimpleNamespace(take=taken.append)
    sound = Settings(source="s.toml")

    class Good:
        def reload_settings(self) -> Settings:
            return sound

    class Bad:
        def reload_settings(self) -> Settings:
            raise InputError("s.toml", "bad")

    good, bad = Good(), Bad()
    writer._reload(bad, receiver)  # type: ignore[arg-type] # a stand-in
    assert taken == []
    writer._reload(good, receiver)  # type: ignore[arg-type] # a stand-in
    writer._reload(good, None)  # type: ignore[arg-type] # a stand-in
    assert taken == [sound]
    assert caplog.messages == [
        "settings stay as they were: s.toml: bad",
        "settings read again from s.toml",
        "settings read again from s.toml",
    ]


class Parent:
    """A pipe that ends after so many looks."""

    def __init__(self, looks: int, then: Callable[[], object] = lambda: None) -> None:
        self.looks, self.then, self.waits = looks, then, list[float]()

    def ended(self, wait_s: float) -> bool:
        """As the class says."""
        self.waits.append(wait_s)
        self.then()
        return len(self.waits) > self.looks


def test_rounds_go_on_until_the_server_ends(tmp_path: Path) -> None:
    """Or until another file takes the history's place."""
    rounds: list[Any] = []
    made: Any = SimpleNamespace(round=rounds.append)
    parent: Any = Parent(2)
    assert writer._serves(made, settings(tmp_path), parent) is False
    assert len(rounds) == 2
    assert parent.waits == [0.5, 0.5, 0.5]
    other = tmp_path / "other.db"
    open_history(other).close()
    parent = Parent(9, lambda: other.exists() and other.replace(tmp_path / "history.db"))
    assert writer._serves(made, settings(tmp_path), parent) is True
    assert len(rounds) == 2


def test_a_history_that_cannot_be_had_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Said once for each reason; given up when the server ends."""
    calls: list[Any] = []
    reasons = ["locked", "locked", "corrupt"]

    def opened(path: Path, *, busy_timeout_ms: int) -> Any:
        calls.append((path, busy_timeout_ms))
        if len(calls) <= len(reasons):
            raise HistoryError(reasons[len(calls) - 1])
        return "history"

    monkeypatch.setattr(writer, "open_history", opened)
    chosen = settings(tmp_path, history__busy_timeout_ms=77)
    parent: Any = Parent(9)
    history: Any = writer._history(chosen, parent)
    assert history == "history"
    assert parent.waits == [5.0] * 3
    assert set(calls) == {(tmp_path / "history.db", 77)}
    assert caplog.messages == [
        "locked; records wait in the spool meanwhile",
        "corrupt; records wait in the spool meanwhile",
    ]
    calls.clear()
    with pytest.raises(DlqueueError, match="locked"):
        writer._history(chosen, Parent(0))  # type: ignore[arg-type] # a stand-in


def test_another_file_is_compared_with_slurm_at_once(tmp_path: Path) -> None:
    """What was dealt with in the file before may be missing in a backup, whose rows count less."""
    made = HistoryWriter(settings(tmp_path), None)
    acts = {task.name: task.act for task in made._tasks}
    for task in made._tasks:
        task.due_s = float("inf")
    made.begin_anew()
    assert {task.due_s for task in made._tasks} == {0.0}
    new = {task.name for task in made._tasks if task.act != acts[task.name]}
    assert new == {"reconcile", "ends"}


def test_the_writer_stops_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A replaced history is opened again; the stream and a training end with it."""
    calls: list[str] = []
    again = [True, False]
    receiver = SimpleNamespace(shutdown=lambda: calls.append("shutdown"))
    monkeypatch.setattr(writer, "start_receiver", lambda _: receiver)
    monkeypatch.setattr(HistoryWriter, "begin_anew", lambda _: calls.append("begin anew"))
    monkeypatch.setattr(HistoryWriter, "stop", lambda _: calls.append("stop"))
    monkeypatch.setattr(writer, "_serves", lambda *_: again.pop(0))
    writer.keep(settings(tmp_path), None)
    assert calls == ["begin anew", "stop", "shutdown"]
    assert caplog.messages == ["the history was replaced and is opened anew"]


def test_the_programs_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of ours is one line and status 1; it goes behind the answering process."""
    calls: list[Any] = []
    monkeypatch.setattr("slurm_ext.advisor.history_writer.writer.os.nice", calls.append)
    monkeypatch.setattr(
        "slurm_ext.advisor.history_writer.writer.signal.signal", lambda *words: calls.append(words)
    )
    monkeypatch.setattr(writer, "set_up", calls.append)
    monkeypatch.setattr(
        writer, "keep", lambda chosen, config: calls.append((chosen.source, config))
    )
    config = tmp_path / "dlqueue.toml"
    config.write_text("")
    assert writer.main([str(config)]) == 0
    ignored = (signal.SIGINT, signal.SIG_IGN)
    assert calls == [5, ignored, "text", (str(config), config)]

    def failing(*_: Any) -> None:
        raise SlurmError("squeue", 1, "down")

    monkeypatch.setattr(writer, "keep", failing)
    assert writer.main([str(config)]) == 1
    assert caplog.messages == ["squeue (exit 1): down"]


@pytest.mark.parametrize(
    ("fault", "acted"),
    [
        (sqlite3.DatabaseError("malformed"), []),
        (sqlite3.OperationalError("locked"), []),
        (None, ["spool"]),
    ],
)
def test_records_wait_where_the_history_fails(
    tmp_path: Path, fault: Exception | None, acted: list[str]
) -> None:
    """Not where a task fails otherwise, such as at a folder that cannot be listed."""
    done: list[str] = []

    def fail(_history: Any, _now_s: float) -> None:
        raise HistoryError("cannot be read") from fault

    made = HistoryWriter(settings(tmp_path), None)
    made._tasks = (
        PeriodicTask("journal", 0.0, fail),
        PeriodicTask("spool", 0.0, lambda *_: done.append("spool")),
    )
    made.round(ANYTHING)
    assert done == acted
