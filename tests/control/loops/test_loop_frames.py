"""Frame, runner, state and action log of a loop: outcomes, messages and waits, word for word."""

import json
import logging
import os
import signal
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.loops import action_log as action_log_module
from slurm_ext.control.loops import loop_state, runner
from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.control.loops.control_loop import ControlLoop, Events, LoopKind, reload_settings
from slurm_ext.control.loops.loop_state import LoopState, cluster_state
from slurm_ext.control.loops.planned_loop import (
    DONE,
    PlannedAction,
    PlannedLoop,
    planned_kind,
)
from slurm_ext.core.actions import Action
from slurm_ext.core.errors import InputError, SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm.in_memory import MemoryClient

NOW_S = 1234.56789


class ScriptedPlanner:
    """Plans what the test says; an error by subject is what Slurm answers to it."""

    def __init__(self, *subjects: str) -> None:
        self.subjects = list(subjects)
        self.errors: dict[str, str] = {}
        self.applied: list[str] = []

    def plan(self, now_s: float) -> Sequence[PlannedAction]:
        """Plan all of them."""
        return [action(subject) for subject in self.subjects]

    def apply(self, planned: PlannedAction) -> str:
        """Note it, or fail."""
        self.applied.append(planned.subject)
        if planned.subject in self.errors:
            raise SlurmError("scontrol", 1, self.errors[planned.subject])
        return DONE if planned.subject != "words" else "in part"

    def undo(self, now_s: float) -> Sequence[PlannedAction]:
        """Plan all of them."""
        return self.plan(now_s)

    def status(self) -> Mapping[str, Any]:
        """The time is not known here."""
        return {"seen": len(self.subjects)}


def action(subject: str) -> PlannedAction:
    """Something to do to a job."""
    return PlannedAction(
        subject=subject,
        job_id=7,
        done=f"nice={subject}",
        why="it is shorter",
        before={"nice": 0},
        after={"nice": 5},
    )


class NotedLog(ActionLog):
    """Keeps what is written, in batches."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[str, str | None]]] = []

    def write(self, actions: Any) -> None:
        """Keep them."""
        self.batches.append([(one.subject, one.outcome) for one in actions])


def framed(
    planner: ScriptedPlanner, folder: Path, mode: str = "act"
) -> tuple[PlannedLoop, NotedLog, LoopState]:
    """The frame around a planner."""
    kind = planned_kind("queue", lambda *_: planner)
    state = cluster_state(folder, "queue")
    state.path.mkdir(parents=True)
    log = NotedLog()
    settings = Settings(values={"queue.mode": mode})
    return PlannedLoop(planner, kind, settings, state, log, lambda: NOW_S), log, state


def test_a_kind_of_loop_is_named_after_its_settings(tmp_path: Path) -> None:
    """Mode, interval and prefix of the settings; a folder, a log, and the keys of its status."""
    kind = planned_kind("energy", lambda *_: ScriptedPlanner())
    assert (kind.name, kind.mode, kind.interval, kind.prefix, kind.status_keys) == (
        "energy",
        "energy.mode",
        "energy.interval_s",
        "energy.",
        ("moves", "mode"),
    )
    assert kind.log.name == "dlqueue.energy"
    settings = Settings(values={"paths.state_dir": str(tmp_path), "energy.mode": "act"})
    for writes in (True, False):
        state = kind.state(settings, writes)
        expected = (tmp_path / "control/energy", "dlqueue control --energy", writes)
        assert (state.path, state.command, state.writes) == expected
        loop = kind.make(settings, MemoryClient(), state)
        assert isinstance(loop, PlannedLoop)
        assert (loop._action_log is not None) is writes


def test_a_round_as_status_and_journal_have_it(tmp_path: Path) -> None:
    """Every field of an action; times in ms; the outcome in act."""
    planner = ScriptedPlanner("1", "words")
    planner.errors = {}
    loop, log, state = framed(planner, tmp_path)
    actions = loop.round()
    assert [(one.at_s, one.kind, one.mode, one.job_id) for one in actions] == [
        (1234.568, "queue", "act", 7)
    ] * 2
    first = {
        "subject": "1",
        "job_id": 7,
        "done": "nice=1",
        "why": "it is shorter",
        "before": {"nice": 0},
        "after": {"nice": 5},
        "outcome": "done",
    }
    second = first | {"subject": "words", "done": "nice=words", "outcome": "in part"}
    assert state.read_status() == {
        "v": 1,
        "kind": "queue",
        "mode": "act",
        "at_s": 1234.568,
        "moves": [first, second],
        "details": {"seen": 2},
    }
    assert log.batches == [[("1", "done"), ("words", "in part")]]


def test_a_shadow_round_has_no_outcome_and_is_recorded_once(tmp_path: Path) -> None:
    """An action that goes away and comes again is new; one that stays is not."""
    planner = ScriptedPlanner("1")
    loop, log, _ = framed(planner, tmp_path, "shadow")
    assert not loop.acts
    (planned,) = loop.round()
    assert (planned.mode, planned.outcome) == ("shadow", None)
    loop.round()
    planner.subjects = []
    loop.round()
    planner.subjects = ["1", "2"]
    loop.round()
    assert log.batches == [[("1", None)], [("1", None), ("2", None)]]
    assert planner.applied == []


def test_an_outcome_that_changes_is_recorded_again(tmp_path: Path) -> None:
    """A refusal that lasts is recorded once, and the success after it."""
    planner = ScriptedPlanner("1")
    planner.errors = {"1": "busy"}
    loop, log, _ = framed(planner, tmp_path)
    loop.round()
    loop.round()
    planner.errors = {}
    loop.round()
    assert log.batches == [[("1", "failed: busy")], [("1", "done")]]


@pytest.mark.parametrize(
    ("output", "outcome"),
    [
        ("", "failed: Slurm gave no reason"),
        (" \n", "failed: Slurm gave no reason"),
        ("a\n  b", "failed: a b"),
        ("x" * 201, "failed: " + "x" * 200),
    ],
)
def test_slurms_refusal_is_the_outcome(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, output: str, outcome: str
) -> None:
    """On one line, 200 characters at most; the log names subject and deed."""
    planner = ScriptedPlanner("1")
    planner.errors = {"1": output}
    loop, _, _ = framed(planner, tmp_path)
    assert [one.outcome for one in loop.round()] == [outcome]
    (message,) = caplog.messages
    assert message.startswith("1: nice=1 failed: scontrol (exit 1): ")


@pytest.mark.parametrize(
    ("refused", "applied"),
    [
        ("", "123456"),
        ("12", "123456"),
        ("1245", "123456"),
        ("123", "123"),
        ("345", "12345"),
        ("2456", "123456"),
    ],
)
def test_three_refusals_in_a_row_end_a_round(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, refused: str, applied: str
) -> None:
    """What was done is recorded and shown first; then the round fails. Two are no reason."""
    planner = ScriptedPlanner(*"123456")
    planner.errors = dict.fromkeys(refused, "no")
    loop, log, state = framed(planner, tmp_path)
    if refused in ("123", "345", "2456"):
        with pytest.raises(SlurmError, match=r"^queue: 3 actions in a row failed$"):
            loop.round()
    else:
        loop.round()
    assert "".join(planner.applied) == applied
    assert len(log.batches[0]) == len(applied)
    status = state.read_status()
    assert status is not None
    assert len(status["moves"]) == len(applied)


def test_an_undo_counts_or_says_that_some_is_left(tmp_path: Path) -> None:
    """In shadow, too, what an earlier act did is put back, and recorded as act."""
    planner = ScriptedPlanner("1", "2")
    loop, log, _ = framed(planner, tmp_path, "shadow")
    loop.round()
    assert loop.undo() == 2
    assert planner.applied == ["1", "2"]
    assert log.batches[-1] == [("1", "done"), ("2", "done")]
    planner.errors = {"2": "no"}
    message = r"^queue: undo: not everything was put back$"
    with pytest.raises(SlurmError, match=message):
        loop.undo()
    planner.subjects, planner.errors = list("12345"), dict.fromkeys("123", "no")
    with pytest.raises(SlurmError, match=message):
        loop.undo()
    planner.subjects, planner.errors = ["words"], {}
    with pytest.raises(SlurmError, match=message):
        loop.undo()
    planner.subjects = []
    assert loop.undo() == 0


def test_an_undo_makes_the_same_action_new(tmp_path: Path) -> None:
    """What is planned again after it is recorded again."""
    planner = ScriptedPlanner("1")
    loop, log, _ = framed(planner, tmp_path)
    loop.round()
    loop.undo()
    loop.round()
    assert log.batches == [[("1", "done")]] * 3


def test_settings_are_read_again_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    """The loop's own and the kill file change; the source is the new one."""
    caplog.set_level(logging.INFO)
    kind = planned_kind("queue", lambda *_: ScriptedPlanner())
    old = {"queue.mode": "act", "paths.kill_file": "/a", "paths.state_dir": "/old", "queuex": 1}
    new = {"queue.order": "fifo", "paths.kill_file": "/b", "paths.state_dir": "/new"}
    settings = reload_settings(
        Settings(source="old.toml", values=old),
        lambda: Settings(source="new.toml", values=new),
        kind,
    )
    assert settings.values == {
        "queue.order": "fifo",
        "paths.kill_file": "/b",
        "paths.state_dir": "/old",
        "queuex": 1,
    }
    assert settings.source == "new.toml"

    def load() -> Settings:
        raise InputError("new.toml", "is odd")

    assert reload_settings(settings, load, kind) is settings
    assert caplog.messages == [
        "settings read again from new.toml",
        "settings stay as they were: new.toml: is odd",
    ]


class Scripted(ControlLoop):
    """A loop that fails as the test says."""

    def __init__(self) -> None:
        self.acts = True
        self.error: Exception | None = None
        self.undos = 0

    def round(self) -> None:
        """Fail, or do nothing."""
        if self.error:
            raise self.error

    def undo(self) -> int:
        """Put back two changes at first."""
        self.undos += 1
        return 2 if self.undos == 1 else 0


def runner_of(
    loop: ControlLoop, folder: Path, interval_s: float = 60.0, mode: str = "act"
) -> runner.LoopRunner:
    """A runner of a loop."""
    kind = LoopKind(
        name="queue",
        mode="queue.mode",
        interval="queue.interval_s",
        prefix="queue.",
        state=lambda settings, writes: cluster_state(settings.state_dir, "queue", writes=writes),
        make=lambda *_: loop,
        status_keys=(),
    )
    values = {"queue.mode": mode, "queue.interval_s": interval_s}
    paths = {"paths.state_dir": str(folder), "paths.kill_file": str(folder / "off")}
    settings = Settings(values={**values, **paths})
    return runner.LoopRunner(kind, settings, MemoryClient(), cluster_state(folder, "queue"))


@pytest.mark.parametrize(
    ("interval_s", "waits"),
    [
        (60.0, [60.0, 120.0, 240.0, 300.0, 300.0]),
        (100.0, [100.0, 200.0, 300.0, 300.0, 300.0]),
        (400.0, [400.0] * 5),
    ],
)
def test_waits_double_up_to_five_minutes(
    tmp_path: Path, interval_s: float, waits: list[float]
) -> None:
    """After each failure; never less than the interval, and as before after a success."""
    loop = Scripted()
    rounds = runner_of(loop, tmp_path, interval_s)
    measured = [rounds._wait_s()]
    loop.error = SlurmError("squeue", 1, "away")
    for _ in range(4):
        rounds.safe_turn()
        measured.append(rounds._wait_s())
    assert measured == waits
    loop.error = None
    rounds.safe_turn()
    assert rounds._wait_s() == interval_s


def test_a_wait_stays_finite_after_a_year_of_failures(tmp_path: Path) -> None:
    """A short interval takes 20 doublings at most: no power overflows."""
    rounds = runner_of(Scripted(), tmp_path, 0.0001)
    rounds._failures = 10**6
    assert rounds._wait_s() == pytest.approx(0.0001 * 2**20)


def test_an_error_is_reported_once_until_a_round_succeeds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the wait before the next; an unknown kind by name and with its traceback."""
    caplog.set_level(logging.INFO, "dlqueue.queue")
    loop = Scripted()
    rounds = runner_of(loop, tmp_path)
    for error in (
        SlurmError("squeue", 1, "away"),
        SlurmError("squeue", 1, "away"),
        ValueError("a fault"),
        None,
        None,
        SlurmError("squeue", 1, "away"),
    ):
        loop.error = error
        rounds.safe_turn()
    assert [(record.getMessage(), bool(record.exc_info)) for record in caplog.records] == [
        ("this round failed, the next in 120 s: squeue (exit 1): away", False),
        ("this round failed, the next in 300 s: ValueError: a fault", True),
        ("put back: 2 changes", False),
        ("rounds succeed again", False),
        ("this round failed, the next in 120 s: squeue (exit 1): away", False),
    ]


@pytest.mark.parametrize(("failures", "undos"), [(1, 0), (2, 0), (3, 1), (4, 2), (6, 4)])
def test_the_third_failure_in_a_row_undoes_all(tmp_path: Path, failures: int, undos: int) -> None:
    """And each one after it: a round may have changed something before it failed."""
    loop = Scripted()
    rounds = runner_of(loop, tmp_path)
    loop.error = RuntimeError("x")
    for _ in range(failures):
        rounds.safe_turn()
    assert loop.undos == undos


def test_a_loop_that_cannot_be_made_again_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Settings that it cannot work with leave the one that there is."""
    rounds = runner_of(Scripted(), tmp_path)
    settings = Settings(
        values={
            "queue.mode": "act",
            "queue.interval_s": 1.0,
            "paths.kill_file": str(tmp_path / "off"),
        }
    )
    assert rounds.remade(settings, MemoryClient()) is not rounds

    def make(*_: object) -> ControlLoop:
        raise InputError("x", "is odd")

    object.__setattr__(rounds._kind, "make", make)
    assert rounds.remade(settings, MemoryClient()) is rounds
    assert caplog.messages == ["settings stay as they were: x: is odd"]


@pytest.mark.parametrize("reload", [True, False])
def test_signals_end_or_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, reload: bool
) -> None:
    """SIGHUP alone: read the settings; SIGTERM, also together with it: undo and end."""
    caplog.set_level(logging.INFO)
    loop = Scripted()
    rounds = runner_of(loop, tmp_path)
    numbers = [signal.SIGHUP] if reload else [signal.SIGHUP, signal.SIGTERM]
    monkeypatch.setattr(rounds, "_wait", lambda _: bytes(numbers))
    assert rounds.until_signal(0) is reload
    assert loop.undos == (0 if reload else 1)
    assert caplog.messages == ["queue in mode act"]


@pytest.mark.parametrize(
    ("polled", "changed", "slices"), [(False, False, [60.0]), (True, True, [0.5])]
)
def test_a_wait_is_polled_only_where_something_may_change(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    polled: bool,
    changed: bool,
    slices: list[float],
) -> None:
    """Twice a second; otherwise one wait to the end."""
    waits: list[float] = []

    def select(*arguments: Any) -> tuple[list[int], list[int], list[int]]:
        waits.append(arguments[-1])
        return [], [], []

    monkeypatch.setattr("select.select", select)
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    rounds = runner_of(Scripted(), tmp_path)

    class Watch:
        def __enter__(self) -> Events:
            return Events(descriptors=(9,), changed=(lambda: changed) if polled else None)

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(rounds._loop, "events", Watch)
    assert rounds._wait(0) == b""
    assert waits == slices


def test_the_folder_of_a_loop_is_its_own(tmp_path: Path) -> None:
    """0700, its files 0600; a second process is refused by path and command."""
    prepared: list[int] = []
    state = LoopState(tmp_path / "x", "a command", prepare=lambda: prepared.append(1))
    lock = state.lock()
    state.keep({"a": 1})
    state.write_status({"b": 2})
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.path.iterdir()}
    assert modes == {"lock": 0o600, "undo.json": 0o600, "status.json": 0o600}
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o700
    assert json.loads((state.path / "undo.json").read_text()) == {"v": 1, "kept": {"a": 1}}
    with pytest.raises(InputError, match=f"^{tmp_path}/x: another `a command` works$"):
        state.lock()
    assert prepared == [1, 1]
    os.close(lock)


@pytest.mark.parametrize("durable", [True, False])
def test_an_undo_file_is_durable_where_a_reboot_undoes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    """The status never is: it is shown while the loop runs."""
    written: list[tuple[str, bool]] = []

    def replace_file(path: Path, body: bytes, *, mode: int, durable: bool) -> None:
        written.append((path.name, durable))
        path.write_bytes(body)

    monkeypatch.setattr(loop_state, "replace_file", replace_file)
    state = LoopState(tmp_path, "a command", durable=durable)
    state.keep({})
    state.write_status({})
    assert written == [("undo.json", durable), ("status.json", False)]


def test_a_version_that_is_not_known_is_named(tmp_path: Path) -> None:
    """With the one that is expected; the error says to remove the file."""
    state = LoopState(tmp_path, "a command")
    (tmp_path / "undo.json").write_text('{"v": 2, "kept": {}}')
    why = "cannot be used: ValueError('version 2, expected 1'); remove it"
    with pytest.raises(InputError) as caught:
        state.load(dict)
    assert str(caught.value) == f"{tmp_path}/undo.json: {why}"
    (tmp_path / "undo.json").unlink()
    (tmp_path / "undo.json").mkdir()
    with pytest.raises(InputError, match=r"undo\.json: cannot be (used|read)"):
        state.load(dict)


def test_a_file_that_another_writer_holds_is_tried_100_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """0.02 s apart; then its lines are kept in memory and written with the next."""
    waits: list[float] = []
    tries = [0]

    def try_lock(_: int) -> bool:
        tries[0] += 1
        return tries[0] > 100

    monkeypatch.setattr(action_log_module, "try_lock", try_lock)
    monkeypatch.setattr(time, "sleep", waits.append)
    log = ActionLog(tmp_path, "queue", clock=lambda: 0.0)
    row = Action(at_s=1.0, kind="queue", mode="act", subject="7", done="nice=1", why="because")
    log.write([row])
    assert (waits, log.kept) == ([0.02] * 100, 1)
    message = f"{tmp_path}/moves: another loop holds the file; actions are kept in memory"
    assert caplog.messages == [message]
    log.write([])
    assert (tries, log.kept) == ([101], 0)
    (path,) = (tmp_path / "moves").iterdir()
    assert path.name == "queue-19700101.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_at_most_10000_actions_wait_in_memory() -> None:
    """As the log says when the oldest are lost."""
    assert action_log_module.MOST_KEPT == 10_000
