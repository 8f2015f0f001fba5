"""The runner's own promises: early rounds by events, and when it undoes."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm_ext.control.loops import runner
from slurm_ext.control.loops.control_loop import ControlLoop, Events, LoopKind
from slurm_ext.control.loops.loop_state import cluster_state
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import MemoryClient
from tests.whole import until


class Counting(ControlLoop):
    """Counts its rounds and undos; `event` and `descriptor` begin a round early."""

    def __init__(self, acts: bool = True) -> None:
        self.acts = acts
        self.rounds = self.undos = self.closed = 0
        self.event = False
        self.descriptors: list[int] = []
        self.error: Exception | None = None
        self.undo_error: Exception | None = None
        self.stays = ""

    def round(self) -> None:
        """Count, or fail."""
        self.rounds += 1
        self.event = False
        if self.error:
            raise self.error

    def undo(self) -> int:
        """Count, or fail."""
        self.undos += 1
        if self.undo_error:
            raise self.undo_error
        return 1

    def left(self) -> str:
        """Return what the test says."""
        return self.stays

    def close(self) -> None:
        """Count."""
        self.closed += 1

    @contextmanager
    def events(self) -> Iterator[Events]:
        """The test's own."""
        yield Events(descriptors=self.descriptors, changed=lambda: self.event)


def kind_of(loop: ControlLoop) -> LoopKind:
    """A kind that is made of this very loop."""
    return LoopKind(
        name="queue",
        mode="queue.mode",
        interval="queue.interval_s",
        prefix="queue.",
        state=lambda settings, writes: cluster_state(settings.state_dir, "queue", writes=writes),
        make=lambda *_: loop,
        status_keys=(),
    )


def settings_of(tmp_path: Path, mode: str = "act") -> Settings:
    """A round a minute."""
    values = {"queue.mode": mode, "queue.interval_s": 60.0, "paths.state_dir": str(tmp_path)}
    return Settings(values={**values, "paths.kill_file": str(tmp_path / "off")})


def runner_of(loop: Counting, tmp_path: Path, mode: str = "act") -> runner.LoopRunner:
    """A runner of this loop."""
    settings = settings_of(tmp_path, mode)
    state = cluster_state(tmp_path, "queue")
    return runner.LoopRunner(kind_of(loop), settings, MemoryClient(), state)


def served(loop: Counting, tmp_path: Path, *steps: Callable[[], object]) -> None:
    """Serve until each step was true, then end."""

    def wait() -> None:
        try:
            for step in steps:
                until(step, "it never happened")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=wait)
    thread.start()
    settings = settings_of(tmp_path)
    runner.serve(kind_of(loop), settings, MemoryClient(), lambda: settings)
    thread.join()


def test_a_change_begins_a_round_before_it_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polled many times a minute; the loop is undone once at the end."""
    monkeypatch.setattr(runner, "POLL_S", 0.01)
    loop = Counting()

    def happens() -> bool:
        loop.event = loop.rounds == 1 or loop.event
        return loop.rounds == 2

    served(loop, tmp_path, happens)
    assert (loop.rounds, loop.undos) == (2, 1)


def test_a_descriptor_begins_a_round_before_it_is_due(tmp_path: Path) -> None:
    """As that of a process that ended."""
    loop = Counting()
    reading, writing = os.pipe()
    loop.descriptors = [reading]

    def happens() -> bool:
        if loop.rounds == 1:
            loop.descriptors = []
            os.write(writing, b"x")
        return loop.rounds == 2

    try:
        served(loop, tmp_path, happens)
    finally:
        os.close(reading)
        os.close(writing)
    assert loop.rounds == 2


def test_after_a_failure_no_event_begins_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a fault and a dead process together would be a busy loop."""
    loop = Counting()
    loop.error = RuntimeError("a fault of ours")
    waits: list[float] = []

    def select(readers: list[int], *_: object) -> tuple[list[int], list[int], list[int]]:
        waits.append(_[-1])  # type: ignore[arg-type]
        return readers[:1], [], []

    rounds = runner_of(loop, tmp_path)
    rounds.safe_turn()
    monkeypatch.setattr("select.select", select)
    monkeypatch.setattr(os, "read", lambda *_: bytes([signal.SIGTERM]))
    loop.event, loop.descriptors = True, [99]
    assert rounds._wait(0) == bytes([signal.SIGTERM])
    assert waits == [pytest.approx(120.0, abs=1.0)]


def test_an_undo_that_fails_is_tried_again(tmp_path: Path) -> None:
    """While the loop fails, and never more than once after it has worked."""
    loop = Counting()
    loop.error = SlurmError("squeue", 1, "no controller")
    loop.undo_error = SlurmError("scontrol", 1, "no controller")
    rounds = runner_of(loop, tmp_path)
    undos = []
    for _ in range(5):
        rounds.safe_turn()
        undos.append(loop.undos)
    assert undos == [0, 0, 1, 2, 3]


@pytest.mark.parametrize(("mode", "rounds", "undos"), [("off", 0, 1), ("shadow", 3, 1)])
def test_a_loop_that_does_not_act_is_undone_once(
    tmp_path: Path, mode: str, rounds: int, undos: int
) -> None:
    """In mode off there is no round at all."""
    loop = Counting(acts=False)
    turns = runner_of(loop, tmp_path, mode)
    for _ in range(3):
        turns.turn()
    assert (loop.rounds, loop.undos) == (rounds, undos)


def test_a_loop_that_leaves_a_change_is_undone_until_it_leaves_none(tmp_path: Path) -> None:
    """In a mode other than act, and beside the kill file, in every round."""
    loop = Counting(acts=False)
    loop.stays = "running jobs bound to a node (1)"
    turns = runner_of(loop, tmp_path, "shadow")
    for _ in range(3):
        turns.turn()
    (tmp_path / "off").touch()
    turns.turn()
    assert loop.undos == 4
    loop.stays = ""
    for _ in range(3):
        turns.turn()
    assert loop.undos == 5


def test_a_change_that_is_left_at_the_end_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names it, and the command that puts it back later; so does that command."""
    loop = Counting()
    loop.stays = "running jobs bound to a node (1)"
    text = f"not put back yet: {loop.stays}; run `dlqueue control --queue --restore` again later"
    served(loop, tmp_path, lambda: loop.rounds)
    assert caplog.messages.count(text) == 1
    runner.restore(kind_of(loop), settings_of(tmp_path), MemoryClient())
    assert caplog.messages.count(text) == 2
    loop.stays = ""
    runner.restore(kind_of(loop), settings_of(tmp_path), MemoryClient())
    assert caplog.messages.count(text) == 2


def test_the_kill_file_undoes_once_and_again_after_it_was_away(tmp_path: Path) -> None:
    """No round while it is there."""
    loop, kill = Counting(), tmp_path / "off"
    turns = runner_of(loop, tmp_path)
    done = []
    for there in (True, True, False, True):
        if there:
            kill.touch()
        else:
            kill.unlink()
        turns.turn()
        done.append((loop.rounds, loop.undos))
    assert done == [(0, 1), (0, 1), (1, 1), (1, 2)]


def test_a_loop_goes_on_without_the_old_object(tmp_path: Path) -> None:
    """SIGHUP closes it, and undoes nothing by itself."""
    loop = Counting()

    def happens() -> bool:
        if loop.rounds == 1 and not loop.closed:
            os.kill(os.getpid(), signal.SIGHUP)
        return loop.rounds == 2

    served(loop, tmp_path, happens)
    assert loop.undos == 1
    assert loop.closed >= 1
