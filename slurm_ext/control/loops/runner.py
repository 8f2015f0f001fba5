"""`dlqueue control --queue|--elastic|--energy`: rounds of a cluster loop until told to end.

One process a loop, by a lock. An error of Slurm is a line in the log and a longer wait, never the
end. What was done is put back at the end, while the kill file is there, and when the mode is no
longer act; a process that was killed left it on the disk for the next one, or for `--restore`.
"""

import logging
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.control.loops.cluster_loop import LoopFactory, Rounds
from slurm_ext.control.loops.loop_memory import LoopFolder, ReadOnly
from slurm_ext.control.loops.reload import read_again
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.signals import signals
from slurm_ext.slurm.client import SlurmClient

MOST_BACK_OFF_S = 300.0


def serve(
    kind: str,
    make: LoopFactory,
    settings: Settings,
    client: SlurmClient,
    again: Callable[[], Settings],
) -> None:
    """Work until SIGTERM or SIGINT. Raises InputError, OSError.

    SIGHUP: go on with this loop's settings as `again` reads them, where they are sound.
    """
    mine, log = (f"{kind}.", "paths.kill_file"), logging.getLogger(f"dlqueue.{kind}")
    folder = LoopFolder(settings.state_dir, kind)
    held = folder.lock()
    try:
        with signals(signal.SIGHUP) as told:
            while _Serving(make, settings, client, folder).until_told(told):
                settings = read_again(settings, again, mine, log)
    finally:
        folder.silent()
        os.close(held)


def once(kind: str, make: LoopFactory, settings: Settings, client: SlurmClient) -> dict[str, Any]:
    """One round in the mode that is set, for a timer; nothing is put back after it.

    The status that `control status` shows. Raises InputError, SlurmError, OSError.
    """
    folder = LoopFolder(settings.state_dir, kind)
    held = folder.lock()
    try:
        if not Path(settings["paths.kill_file"]).exists():
            _rounds(make, settings, client, folder, ActionLog(settings.state_dir, kind)).round()
        return folder.told() or {}
    finally:
        os.close(held)


def dry_run(
    kind: str, make: LoopFactory, settings: Settings, client: SlurmClient
) -> dict[str, Any]:
    """What would be done now, in any mode; nothing is changed or written. Raises SlurmError."""
    values = {**settings.values, f"{kind}.mode": "shadow"}
    silent = Settings(source=settings.source, values=values)
    folder = ReadOnly(settings.state_dir, kind)
    _rounds(make, silent, client, folder, None).round()
    return folder.status


def restore(kind: str, make: LoopFactory, settings: Settings, client: SlurmClient) -> int:
    """Put back what a killed one left; how many moves. Raises InputError, SlurmError, OSError."""
    folder = LoopFolder(settings.state_dir, kind)
    held = folder.lock()
    try:
        return _rounds(make, settings, client, folder, ActionLog(settings.state_dir, kind)).undo()
    finally:
        os.close(held)


def _rounds(
    make: LoopFactory,
    settings: Settings,
    client: SlurmClient,
    folder: LoopFolder,
    ledger: ActionLog | None,
) -> Rounds:
    loop = make(settings, client, folder)
    return Rounds(loop, settings[f"{folder.kind}.mode"], folder, ledger)


class _Serving:
    """Rounds under one set of settings, survived whatever they raise."""

    def __init__(
        self, make: LoopFactory, settings: Settings, client: SlurmClient, folder: LoopFolder
    ) -> None:
        kind = folder.kind
        self._log, self._mode = logging.getLogger(f"dlqueue.{kind}"), settings[f"{kind}.mode"]
        self._kill_file = Path(settings["paths.kill_file"])
        self._interval_s: float = settings[f"{kind}.interval_s"]
        ledger = ActionLog(settings.state_dir, kind)
        self._rounds = _rounds(make, settings, client, folder, ledger)
        self._failures = 0
        self._put_back = False

    def until_told(self, told: int) -> bool:
        """True: SIGHUP came, read the settings again; False: this is the end."""
        self._log.info("%s in mode %s", self._kind, self._mode)
        while True:
            self._safely(self._turn)
            if select.select([told], [], [], self._wait_s())[0]:
                again = set(os.read(told, 64)) == {signal.SIGHUP}
                if not again:
                    self._put_back = False
                    self._safely(self._undone)
                return again

    @property
    def _kind(self) -> str:
        return self._log.name.partition(".")[2]

    def _turn(self) -> None:
        """A round, where this loop is on; else once everything as it was."""
        off = self._kill_file.exists()
        if off or not self._rounds.acts:
            self._undone()
        if not off and self._mode != "off":
            self._put_back = self._put_back and not self._rounds.acts
            self._rounds.round()

    def _undone(self) -> None:
        if not self._put_back:
            if count := self._rounds.undo():
                self._log.info("put back: %d moves", count)
            self._put_back = True

    def _safely(self, act: Callable[[], object]) -> None:
        started_s = time.monotonic()
        try:
            act()
            self._failures = 0
        except SlurmError as error:
            self._failures += 1
            self._log.warning("this round failed, the next in %g s: %s", self._wait_s(), error)
        except Exception:  # whatever it is: the cluster goes on without us
            self._failures += 1
            self._log.exception("this round failed, the next in %g s", self._wait_s())
        self._log.debug("a round of %.3f s", time.monotonic() - started_s)

    def _wait_s(self) -> float:
        """Longer after each failure in a row, up to five minutes."""
        most = max(MOST_BACK_OFF_S, self._interval_s)
        return float(min(most, self._interval_s * 2 ** min(self._failures, 20)))
