"""The frame of a planned loop: outcomes, messages and undo, word for word."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.control.loops.loop_state import LoopState, cluster_state
from slurm_ext.control.loops.planned_loop import (
    DONE,
    PlannedAction,
    PlannedLoop,
    planned_kind,
)
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm.in_memory import MemoryClient

NOW_S = 1234.56789


class ScriptedPlanner:
    """Plans what the test says; an error by subject is what Slurm answers to it."""

    def __init__(self, *subjects: str) -> None:
        self.subjects = list(subjects)
        self.errors: dict[str, str] = {}
        self.applied: list[str] = []
        self.stays = ""

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
        return [] if self.stays else self.plan(now_s)

    def left(self) -> str:
        """Return what the test says."""
        return self.stays

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


def test_an_undo_that_finds_nothing_to_do_writes_no_action_of_shadow_again(tmp_path: Path) -> None:
    """An undo in each round, for a job that runs, leaves the journal as it is."""
    planner = ScriptedPlanner("1")
    planner.stays = "running jobs with a nice of ours (1)"
    loop, log, _ = framed(planner, tmp_path, "shadow")
    for _ in range(3):
        assert (loop.undo(), loop.left()) == (0, planner.stays)
        loop.round()
    assert [batch for batch in log.batches if batch] == [[("1", None)]]
