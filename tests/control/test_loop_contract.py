"""The contract of every control loop: the same options, signals, files and failures."""

import json
import logging
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.loops import runner
from slurm_ext.control.loops.control_loop import ControlLoop, LoopKind
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.core.errors import DlqueueError, InputError, SettingsError, SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import SlurmClient
from tests.control.loop_sites import LoopSite, Step, signalled, site

__all__ = ["site"]


def serve(
    site: LoopSite, *steps: Step, kind: LoopKind | None = None, again: Settings | None = None
) -> None:
    """Run the loop in mode act until the last of `steps`."""
    settings = site.settings()
    thread = signalled(*steps)
    runner.serve(kind or site.kind, settings, site.client, lambda: again or settings)
    thread.join()


def files(site: LoopSite) -> dict[Path, bytes]:
    """Every file of the site with its content."""
    return {path: path.read_bytes() for path in site.folder.rglob("*") if path.is_file()}


def state_of(site: LoopSite) -> LoopState:
    """The loop's folder."""
    return site.kind.state(site.settings(), False)


class Failing:
    """A loop whose rounds fail while `error` is set."""

    def __init__(self, kind: LoopKind) -> None:
        self.error: Exception | None = None
        self.rounds = 0
        self.kind = replace(kind, make=self._make)
        self._made = kind.make

    def _make(self, settings: Settings, client: SlurmClient, state: LoopState) -> ControlLoop:
        loop = self._made(settings, client, state)
        sound = loop.round

        def round_() -> object:
            self.rounds += 1
            if self.error is not None:
                raise self.error
            return sound()

        loop.round = round_  # type: ignore[method-assign]
        return loop


def test_one_process_runs_a_loop(site: LoopSite) -> None:
    """A second one is refused by name, whatever it is to do, and changes nothing."""
    lock = site.kind.state(site.settings(), True).lock()
    command = state_of(site).command
    for act in (runner.once, runner.restore):
        with pytest.raises(InputError, match=f"another `{command}` works"):
            act(site.kind, site.settings(), site.client)
    with pytest.raises(InputError, match=f"another `{command}` works"):
        runner.serve(site.kind, site.settings(), site.client, site.settings)
    os.close(lock)
    assert not site.changed()


def test_once_acts_once_in_mode_act(site: LoopSite) -> None:
    """The change stays, and the status says so; the lock is free again."""
    status = runner.once(site.kind, site.settings(), site.client)
    assert site.changed()
    assert status["mode"] == "act"
    assert set(site.kind.status_keys) <= set(status)
    os.close(site.kind.state(site.settings(), True).lock())


def test_once_changes_nothing_in_shadow(site: LoopSite) -> None:
    """It puts back what an earlier round in act has changed."""
    assert runner.once(site.kind, site.settings("shadow"), site.client)["mode"] == "shadow"
    assert not site.changed()
    runner.once(site.kind, site.settings(), site.client)
    assert site.changed()
    runner.once(site.kind, site.settings("shadow"), site.client)
    assert not site.changed()


def test_once_with_the_kill_file_puts_back(site: LoopSite) -> None:
    """Nothing else is done, and there is no status to show."""
    runner.once(site.kind, site.settings(), site.client)
    site.kill_file.touch()
    assert runner.once(site.kind, site.settings(), site.client) == {}
    assert not site.changed()


@pytest.mark.parametrize("mode", ["off", "shadow", "act"])
def test_a_dry_run_changes_and_writes_nothing(site: LoopSite, mode: str) -> None:
    """In any mode, beside a running loop too."""
    lock = site.kind.state(site.settings(), True).lock()
    before = files(site)
    status = runner.dry_run(site.kind, site.settings(mode), site.client)
    os.close(lock)
    assert set(site.kind.status_keys) <= set(status)
    assert status["mode"] == "shadow"
    assert not site.changed()
    assert files(site) == before


def test_sigterm_puts_everything_back(site: LoopSite) -> None:
    """While it runs there is a status; afterwards there is none, and nothing to restore."""
    statuses = []

    def changed() -> bool:
        if site.changed() and (status := state_of(site).read_status(*site.kind.status_keys)):
            statuses.append(status)
        return bool(statuses)

    serve(site, (changed, signal.SIGTERM))
    assert not site.changed()
    assert state_of(site).read_status() is None
    assert runner.restore(site.kind, site.settings(), site.client) == 0


def test_sighup_reads_the_settings_again(site: LoopSite, caplog: pytest.LogCaptureFixture) -> None:
    """A mode that became shadow puts back, and the process stays."""
    caplog.set_level(logging.INFO)

    def put_back() -> bool:
        return not site.changed() and "in mode shadow" in caplog.text

    steps: tuple[Step, ...] = ((site.changed, signal.SIGHUP), (put_back, signal.SIGTERM))
    serve(site, *steps, again=site.settings("shadow"))
    assert not site.changed()


def test_sighup_keeps_settings_that_are_unsound(
    site: LoopSite, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says what is wrong, and the loop goes on as it was."""

    def unsound() -> Settings:
        raise SettingsError("dlqueue.toml", site.kind.mode, 7, "off, shadow or act")

    def goes_on() -> bool:
        return "settings stay as they were" in caplog.text and site.changed()

    thread = signalled((site.changed, signal.SIGHUP), (goes_on, signal.SIGTERM))
    runner.serve(site.kind, site.settings(), site.client, unsound)
    thread.join()
    assert "settings stay as they were" in caplog.text


def test_sighup_survives_settings_that_no_loop_can_be_made_with(
    site: LoopSite, caplog: pytest.LogCaptureFixture
) -> None:
    """Sound by themselves, and yet refused by the loop: it goes on with the old ones."""
    made: list[LoopState] = []

    def make(settings: Settings, client: SlurmClient, state: LoopState) -> ControlLoop:
        if made:
            raise InputError("undo.json", "cannot be used")
        made.append(state)
        return site.kind.make(settings, client, state)

    def goes_on() -> bool:
        return "settings stay as they were" in caplog.text and site.changed()

    steps: tuple[Step, ...] = ((site.changed, signal.SIGHUP), (goes_on, signal.SIGTERM))
    serve(site, *steps, kind=replace(site.kind, make=make))
    assert not site.changed()


def test_the_kill_file_puts_back_and_stops_all(site: LoopSite) -> None:
    """When it has gone, work goes on."""

    def switched_off() -> bool:
        if site.changed():
            site.kill_file.touch()
        return site.kill_file.exists()

    def on_again() -> bool:
        site.kill_file.unlink(missing_ok=True)
        return site.changed()

    serve(
        site,
        (switched_off, None),
        (lambda: not site.changed(), None),
        (on_again, signal.SIGTERM),
    )
    assert not site.changed()


ERRORS = [RuntimeError("a fault of ours"), SlurmError("squeue", 1, "no controller")]


@pytest.mark.parametrize("error", ERRORS, ids=["fault", "slurm"])
def test_a_failing_round_is_reported_once_and_retried(
    site: LoopSite, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """It never ends the process; the third in a row puts back; then work goes on."""
    caplog.set_level(logging.INFO)
    loop = Failing(site.kind)

    def broken() -> bool:
        if site.changed():
            loop.error = error
        return loop.error is not None

    def put_back() -> bool:
        return not site.changed() and loop.rounds > 3

    def works_again() -> bool:
        loop.error = None
        return "rounds succeed again" in caplog.text and site.changed()

    steps: tuple[Step, ...] = ((broken, None), (put_back, None), (works_again, signal.SIGTERM))
    serve(site, *steps, kind=loop.kind)
    assert caplog.text.count("this round failed") == 1
    assert str(error) in caplog.text
    assert ("Traceback" in caplog.text) is not isinstance(error, DlqueueError)


def test_each_failure_makes_the_wait_longer(site: LoopSite) -> None:
    """Twice as long each time, up to five minutes, or the interval where that is longer."""
    loop = Failing(site.kind)
    loop.error = RuntimeError("a fault of ours")
    settings = site.settings("act", **{site.kind.interval: 40.0})
    state = site.kind.state(settings, True)
    os.close(state.lock())
    rounds = runner.LoopRunner(loop.kind, settings, site.client, state)
    waits = [rounds._wait_s()]
    for _ in range(5):
        rounds.safe_turn()
        waits.append(rounds._wait_s())
    assert waits == [40.0, 80.0, 160.0, 300.0, 300.0, 300.0]
    loop.error = None
    rounds.safe_turn()
    assert rounds._wait_s() == 40.0


def test_two_failures_put_nothing_back(site: LoopSite) -> None:
    """The third does: a short fault costs nobody what it was given."""
    loop = Failing(site.kind)
    state = site.kind.state(site.settings(), True)
    os.close(state.lock())
    rounds = runner.LoopRunner(loop.kind, site.settings(), site.client, state)
    rounds.safe_turn()
    loop.error = RuntimeError("a fault of ours")
    for _ in range(2):
        rounds.safe_turn()
        assert site.changed()
    rounds.safe_turn()
    assert not site.changed()


def old_body(site: LoopSite) -> dict[str, Any]:
    """What an earlier version would have written into kept.json."""
    body: dict[str, Any] = json.loads((state_of(site).path / "undo.json").read_text())
    kept: dict[str, Any] = body["kept"]
    if "boot_id" in kept:
        return kept
    return {"v": 1, **kept} if "leases" in kept else body


@pytest.mark.parametrize("version", ["new", "old"])
def test_restore_puts_back_what_a_killed_process_left(site: LoopSite, version: str) -> None:
    """Once, in any mode; also from the file of an older version."""
    runner.once(site.kind, site.settings(), site.client)
    if version == "old":
        path = state_of(site).path / "undo.json"
        path.with_name("kept.json").write_text(json.dumps(old_body(site)))
        path.unlink()
    assert site.changed()
    assert runner.restore(site.kind, site.settings("off"), site.client) >= 1
    assert not site.changed()
    assert runner.restore(site.kind, site.settings("off"), site.client) == 0


def test_the_next_process_goes_on_after_a_killed_one(site: LoopSite) -> None:
    """And it puts back the changes of both at its end."""
    runner.once(site.kind, site.settings(), site.client)
    state_of(site).remove_status()
    serve(site, (lambda: state_of(site).read_status() and site.changed(), signal.SIGTERM))
    assert not site.changed()


def test_a_damaged_undo_file_stops_the_start(site: LoopSite) -> None:
    """Nothing is guessed about what was done: the error names the file."""
    state = site.kind.state(site.settings(), True)
    os.close(state.lock())
    (state.path / "undo.json").write_text("{")
    with pytest.raises(InputError, match=r"undo\.json: cannot be used"):
        runner.restore(site.kind, site.settings(), site.client)
    with pytest.raises(InputError, match=r"undo\.json: cannot be used"):
        runner.once(site.kind, site.settings(), site.client)
