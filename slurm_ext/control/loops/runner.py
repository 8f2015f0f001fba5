"""The process around every control loop: rounds until a signal ends it.

One process a loop, by a lock. An error is reported once, and rounds go on with longer and longer
waits: it never ends the process. All changes are put back at the end, while the kill file is there,
in a mode other than act, and after the third failure in a row. Where one cannot be put back yet,
as its job runs, each round tries it again. A process that was killed leaves them on the disk for
the next one, and for `--restore`.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from slurm_ext.control.loops.control_loop import ControlLoop, Events, LoopKind, reload_settings
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.signals import signals
from slurm_ext.slurm.client import SlurmClient

MAX_BACK_OFF_S = 300.0
MAX_FAILURES = 3  # in a row, until all changes are put back
POLL_S = 0.5  # between two looks at what changed


def serve(
    kind: LoopKind, settings: Settings, client: SlurmClient, load: Callable[[], Settings]
) -> None:
    """Run rounds until SIGTERM or SIGINT. Raises InputError, OSError.

    SIGHUP: go on with the loop's settings as `load` reads them, where they are sound.
    """
    with _locked(kind, settings) as state:
        try:
            with signals(signal.SIGHUP) as received:
                runner = LoopRunner(kind, settings, client, state)
                while runner.until_signal(received):
                    settings = reload_settings(settings, load, kind)
                    runner = runner.remade(settings, client)
        finally:
            state.remove_status()


def once(kind: LoopKind, settings: Settings, client: SlurmClient) -> dict[str, Any]:
    """Run one round in the mode that is set, for a timer; its changes stay.

    Returns the status; {} if the kill file is there. Raises InputError, SlurmError, OSError.
    """
    with _locked(kind, settings) as state:
        LoopRunner(kind, settings, client, state).turn()
        return state.status


def dry_run(kind: LoopKind, settings: Settings, client: SlurmClient) -> dict[str, Any]:
    """Return the status of a round in shadow, whatever the mode is; nothing is changed or written.

    Raises InputError, SlurmError.
    """
    state = kind.state(settings, False)
    kind.make(_with(settings, kind.mode, "shadow"), client, state).round()
    return state.status


def restore(kind: LoopKind, settings: Settings, client: SlurmClient) -> int:
    """Put back what a killed process left; returns how many. InputError, SlurmError, OSError."""
    with _locked(kind, settings) as state:
        loop = kind.make(settings, client, state)
        count = loop.undo()
        _warn_of_left(kind, loop, state)
        return count


class LoopRunner:
    """Rounds of one loop under one set of settings."""

    def __init__(
        self, kind: LoopKind, settings: Settings, client: SlurmClient, state: LoopState
    ) -> None:
        self._kind, self._log, self._state = kind, kind.log, state
        self._mode = str(settings[kind.mode])
        self._kill_file = Path(settings["paths.kill_file"])
        self._interval_s = float(settings[kind.interval])
        self._loop = kind.make(settings, client, state)
        self._failures = 0
        self._reported: set[str] = set()
        self._undone = False

    def until_signal(self, received: int) -> bool:
        """Run rounds until a signal comes; True: SIGHUP, read the settings again; False: end."""
        self._log.info("%s in mode %s", self._kind.name, self._mode)
        while True:
            self.safe_turn()
            if numbers := self._wait(received):
                reload = set(numbers) == {signal.SIGHUP}
                self._safely(self._loop.close if reload else self._end)
                return reload

    def remade(self, settings: Settings, client: SlurmClient) -> "LoopRunner":
        """Return a runner under other settings, itself where the loop cannot be made with them."""
        try:
            return LoopRunner(self._kind, settings, client, self._state)
        except (DlqueueError, OSError) as error:
            self._log.warning("settings stay as they were: %s", error)
            return self

    def safe_turn(self) -> None:
        """Run a turn; whatever it raises is reported once, and the third in a row undoes all."""
        try:
            self.turn()
        except Exception as error:  # whatever it is: jobs and cluster go on without us
            self._failures += 1
            self._report(error)
            if self._failures >= MAX_FAILURES:
                self._safely(self._undo)
        else:
            if self._failures:
                self._log.info("rounds succeed again")
            self._failures = 0
            self._reported.clear()

    def turn(self) -> None:
        """Run a round, or put everything back where the loop is off or does not act."""
        off = self._kill_file.exists()
        if off or not self._loop.acts:
            self._undo()
        if not off and self._mode != "off":
            self._undone = self._undone and not self._loop.acts
            self._loop.round()

    def _undo(self) -> None:
        if not self._undone:
            if count := self._loop.undo():
                self._log.info("put back: %d changes", count)
            self._undone = not self._loop.left()

    def _end(self) -> None:
        self._loop.undo()
        _warn_of_left(self._kind, self._loop, self._state)

    def _safely(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:  # as above; the changes stay on the disk
            self._report(error)

    def _report(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        if text not in self._reported:
            named = isinstance(error, DlqueueError | OSError)  # they name what is wrong themselves
            self._log.warning(
                "this round failed, the next in %g s: %s",
                self._wait_s(),
                error if named else text,
                exc_info=not named,
            )
        self._reported.add(text)

    def _wait_s(self) -> float:
        """Seconds to the next round: twice as many after each failure, up to five minutes."""
        most = max(MAX_BACK_OFF_S, self._interval_s)
        return float(min(most, self._interval_s * 2 ** min(self._failures, 20)))

    def _wait(self, received: int) -> bytes:
        """Return the signals that come before the next round is due or an event begins it."""
        due_s = time.monotonic() + self._wait_s()
        with self._loop.events() if not self._failures else nullcontext(Events()) as events:
            while True:
                left_s = max(0.0, due_s - time.monotonic())
                slice_s = min(POLL_S, left_s) if events.changed else left_s
                ready = select.select([received, *events.descriptors], [], [], slice_s)[0]
                if received in ready:
                    return os.read(received, 64)
                if ready or left_s <= slice_s or (events.changed and events.changed()):
                    return b""


def _warn_of_left(kind: LoopKind, loop: ControlLoop, state: LoopState) -> None:
    if left := loop.left():
        text = "not put back yet: %s; run `%s --restore` again later"
        kind.log.warning(text, left, state.command)


@contextmanager
def _locked(kind: LoopKind, settings: Settings) -> Iterator[LoopState]:
    state = kind.state(settings, True)
    lock = state.lock()
    try:
        yield state
    finally:
        os.close(lock)


def _with(settings: Settings, key: str, value: str) -> Settings:
    return Settings(source=settings.source, values={**settings.values, key: value})
