"""The runner of a loop: waits, errors, signals and new settings, word for word."""

import logging
import signal
import time
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.loops import runner
from slurm_ext.control.loops.control_loop import ControlLoop, Events, LoopKind, reload_settings
from slurm_ext.control.loops.loop_state import LoopState, cluster_state
from slurm_ext.control.loops.planned_loop import (
    planned_kind,
)
from slurm_ext.core.errors import InputError, SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm.client import SlurmClient
from slurm_ext.slurm.in_memory import MemoryClient
from tests.control.loops.test_loop_frames import ScriptedPlanner


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
    """With the wait before the next; what no one foresaw by name and with its traceback."""
    caplog.set_level(logging.INFO, "dlqueue.queue")
    loop = Scripted()
    rounds = runner_of(loop, tmp_path)
    full = OSError(ENOSPC, "No space left on device", "status.json")
    for error in (
        SlurmError("squeue", 1, "away"),
        SlurmError("squeue", 1, "away"),
        ValueError("a fault"),
        None,
        None,
        full,
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
        (f"this round failed, the next in 120 s: {full}", False),
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


@pytest.mark.parametrize("mode", ["off", "act"])
def test_a_dry_run_has_the_sites_settings_in_all_but_the_mode(tmp_path: Path, mode: str) -> None:
    """Messages name the same file."""
    made: list[Settings] = []
    values = {"paths.state_dir": str(tmp_path), "queue.mode": mode, "queue.max_nice": 77}
    site = Settings(source="/etc/site.toml", values=values)
    kind = planned_kind("queue", lambda *_: ScriptedPlanner())
    make = kind.make

    def noted(settings: Settings, client: SlurmClient, state: LoopState) -> ControlLoop:
        made.append(settings)
        return make(settings, client, state)

    runner.dry_run(replace(kind, make=noted), site, MemoryClient())
    (seen,) = made
    assert (seen.source, seen["queue.mode"]) == (site.source, "shadow")
    assert dict(seen.values) == values | {"queue.mode": "shadow"}


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
