"""The frame of every cluster loop: what is told, what is survived, what is put back."""

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.lending.node_loop import KIND
from slurm_ext.control.loops import runner
from slurm_ext.control.loops.control_loop import reload_settings
from slurm_ext.control.loops.loop_state import LoopState, cluster_state
from slurm_ext.control.loops.planned_loop import DONE, PlannedAction, planned_kind
from slurm_ext.core.actions import Action, parse_action
from slurm_ext.core.errors import InputError, SettingsError, SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import MemoryClient, SlurmClient
from tests.control.loop_sites import signalled


class Lamp:
    """A loop that wants jobs 1, 2, ... lit, and keeps which are."""

    wanted: tuple[int, ...] = (1,)
    refused: tuple[int, ...] = ()
    away = False
    plans = 0

    def __init__(self, settings: Settings, client: SlurmClient, folder: LoopState) -> None:
        self.folder = folder
        self.lit: set[int] = set(folder.load(dict).get("lit", []))
        self.client = client

    def plan(self, now_s: float) -> Sequence[PlannedAction]:
        """Whoever is not lit."""
        type(self).plans += 1
        if self.away:
            raise SlurmError("squeue", 1, "Unable to contact slurm controller")
        return [_planned(job, "on") for job in self.wanted if job not in self.lit]

    def apply(self, planned: PlannedAction) -> str:
        """On or off."""
        assert planned.job_id is not None
        if planned.job_id in self.refused:
            raise SlurmError("scontrol", 1, "Job is no longer pending")
        (self.lit.add if planned.done == "on" else self.lit.discard)(planned.job_id)
        self.folder.keep({"lit": sorted(self.lit)})
        return DONE

    def undo(self, now_s: float) -> Sequence[PlannedAction]:
        """Whoever is lit."""
        return [_planned(job, "off") for job in sorted(self.lit)]

    def left(self) -> str:
        """Nothing: a lamp can be put out at any time."""
        return ""

    def status(self) -> Mapping[str, Any]:
        """How many are lit."""
        return {"lit": len(self.lit)}


def _planned(job: int, done: str) -> PlannedAction:
    return PlannedAction(subject=str(job), job_id=job, done=done, why="a test wants it")


@pytest.fixture
def lamp() -> type[Lamp]:
    """A class of its own for each test, whose attributes it may set."""
    return type("Lamp", (Lamp,), {})


def settings_of(tmp_path: Path, mode: str = "act") -> Settings:
    """A queue loop, many rounds a second."""
    values: dict[str, Any] = {"queue.mode": mode, "queue.interval_s": 0.02}
    paths = {"paths.state_dir": str(tmp_path), "paths.kill_file": str(tmp_path / "off")}
    return Settings(values={**values, **paths})


def moves(tmp_path: Path) -> list[Action]:
    """All that was written, in order."""
    files = sorted((tmp_path / "moves").glob("queue-*.jsonl"))
    return [parse_action(line) for file in files for line in file.read_bytes().splitlines()]


def lit(tmp_path: Path) -> list[int]:
    """What is kept on the disk."""
    found: list[int] = cluster_state(tmp_path, "queue").load(dict).get("lit", [])
    return found


def serve(lamp: type[Lamp], settings: Settings, again: Settings | None = None) -> None:
    """The process, in this one."""
    runner.serve(planned_kind("queue", lamp), settings, MemoryClient(), lambda: again or settings)


def test_in_shadow_a_move_is_written_once_and_nothing_is_done(
    tmp_path: Path, lamp: type[Lamp]
) -> None:
    """However many rounds decide the same."""
    thread = signalled((lambda: lamp.plans > 3, signal.SIGTERM))
    serve(lamp, settings_of(tmp_path, "shadow"))
    thread.join()
    (move,) = moves(tmp_path)
    assert (move.kind, move.mode, move.subject, move.done) == ("queue", "shadow", "1", "on")
    assert move.outcome is None
    assert lit(tmp_path) == []


def test_what_was_done_is_told_and_put_back_at_the_end(tmp_path: Path, lamp: type[Lamp]) -> None:
    """SIGTERM: the last move is the one back, and the status is gone."""
    thread = signalled((lambda: lit(tmp_path) == [1], signal.SIGTERM))
    serve(lamp, settings_of(tmp_path))
    thread.join()
    told = [(move.mode, move.done, move.outcome) for move in moves(tmp_path)]
    assert told == [("act", "on", DONE), ("act", "off", DONE)]
    assert lit(tmp_path) == []
    assert cluster_state(tmp_path, "queue").read_status() is None


def test_a_mode_that_is_read_again_puts_back(tmp_path: Path, lamp: type[Lamp]) -> None:
    """SIGHUP after act became off: as it was, and the process stays."""

    def off_again() -> bool:
        return lit(tmp_path) == [] and len(moves(tmp_path)) == 2

    steps = ((lambda: lit(tmp_path) == [1], signal.SIGHUP), (off_again, signal.SIGTERM))
    thread = signalled(*steps)
    serve(lamp, settings_of(tmp_path), settings_of(tmp_path, "off"))
    thread.join()
    assert [move.done for move in moves(tmp_path)] == ["on", "off"]


def test_the_kill_file_puts_back_and_stops_all(tmp_path: Path, lamp: type[Lamp]) -> None:
    """While it is there, nothing is looked at; when it has gone, work goes on."""
    kill = tmp_path / "off"

    def switched_off() -> bool:
        if lit(tmp_path) == [1]:
            kill.touch()
        return kill.exists()

    def on_again() -> bool:
        kill.unlink(missing_ok=True)
        return lit(tmp_path) == [1]

    put_back = (lambda: lit(tmp_path) == [], None)
    thread = signalled((switched_off, None), put_back, (on_again, signal.SIGTERM))
    serve(lamp, settings_of(tmp_path))
    thread.join()
    assert [move.done for move in moves(tmp_path)] == ["on", "off", "on", "off"]


def test_a_slurm_that_is_away_is_survived(
    tmp_path: Path, lamp: type[Lamp], caplog: pytest.LogCaptureFixture
) -> None:
    """A line in the log for each failed round; then it works again."""
    lamp.away = True

    def back() -> bool:
        lamp.away = lamp.plans < 2
        return lit(tmp_path) == [1]

    thread = signalled((back, signal.SIGTERM))
    serve(lamp, settings_of(tmp_path))
    thread.join()
    assert "this round failed, the next in" in caplog.text
    assert "Unable to contact slurm controller" in caplog.text


def test_one_refused_move_stops_no_other(tmp_path: Path, lamp: type[Lamp]) -> None:
    """Its outcome says why, once; the next is done all the same."""
    lamp.wanted, lamp.refused = (1, 2), (1,)
    for _ in range(2):
        status = runner.once(planned_kind("queue", lamp), settings_of(tmp_path), MemoryClient())
    assert lit(tmp_path) == [2]
    assert moves(tmp_path)[0].outcome == "failed: Job is no longer pending"
    assert [one["done"] for one in status["moves"]] == ["on"]


def test_a_cluster_that_refuses_everything_is_left_alone(tmp_path: Path, lamp: type[Lamp]) -> None:
    """After three refusals in a row the round ends, and the next is later."""
    lamp.wanted = lamp.refused = tuple(range(1, 10))
    with pytest.raises(SlurmError, match="3 actions in a row failed"):
        runner.once(planned_kind("queue", lamp), settings_of(tmp_path), MemoryClient())
    assert len(moves(tmp_path)) == 3


def test_a_dry_run_leaves_no_trace(tmp_path: Path, lamp: type[Lamp]) -> None:
    """It shows what would be done, in any mode, beside a running one too."""
    folder = cluster_state(tmp_path, "queue")
    held = folder.lock()
    before = sorted(tmp_path.rglob("*"))
    status = runner.dry_run(
        planned_kind("queue", lamp), settings_of(tmp_path, "off"), MemoryClient()
    )
    os.close(held)
    assert [one["done"] for one in status["moves"]] == ["on"]
    assert (status["mode"], status["details"]) == ("shadow", {"lit": 0})
    assert sorted(tmp_path.rglob("*")) == before


def test_there_is_one_process_a_loop(tmp_path: Path, lamp: type[Lamp]) -> None:
    """The second is told so, and changes nothing."""
    held = cluster_state(tmp_path, "queue").lock()
    with pytest.raises(InputError, match="another `dlqueue control --queue` works"):
        serve(lamp, settings_of(tmp_path))
    os.close(held)
    assert moves(tmp_path) == []


def test_what_a_killed_one_left_is_put_back(tmp_path: Path, lamp: type[Lamp]) -> None:
    """By --restore, in any mode; a second time there is nothing."""
    folder = cluster_state(tmp_path, "queue")
    os.close(folder.lock())
    folder.keep({"lit": [4, 5]})
    settings = settings_of(tmp_path, "off")
    assert runner.restore(planned_kind("queue", lamp), settings, MemoryClient()) == 2
    assert runner.restore(planned_kind("queue", lamp), settings, MemoryClient()) == 0
    assert [move.subject for move in moves(tmp_path)] == ["4", "5"]


@pytest.mark.parametrize("text", ["{", "[]", '{"v": 9, "kept": {}}', '{"v": 1}'])
def test_a_damaged_memory_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    """Nothing is guessed about what was done."""
    folder = cluster_state(tmp_path, "queue")
    os.close(folder.lock())
    (folder.path / "kept.json").write_text(text)
    with pytest.raises(InputError, match=r"kept\.json.*remove it"):
        folder.load(dict)


def test_settings_read_again_are_the_files(caplog: pytest.LogCaptureFixture) -> None:
    """Also one that the file did not have before, and one that it has no more; others wait."""
    before = Settings(values={"control.margin": 0.2, "paths.state_dir": "/old"})
    after = Settings(values={"control.grain_cores": 0.5, "paths.state_dir": "/new"})
    found = reload_settings(before, lambda: after, KIND)
    assert found.values == {"control.grain_cores": 0.5, "paths.state_dir": "/old"}

    def wrong() -> Settings:
        raise SettingsError("dlqueue.toml", "control.margin", 7, "a number from 0.0 to 1.0")

    assert reload_settings(before, wrong, KIND) is before
    assert "settings stay as they were" in caplog.text
