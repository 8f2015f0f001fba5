"""`dlqueue control --pairs`: rounds until told to end, then every lease ends."""

import logging
import os
import select
from pathlib import Path
from typing import Any

from slurm_ext.control.coscheduling.co_scheduling_loop import CoScheduler
from slurm_ext.control.coscheduling.known_slowdowns import ServedSlowdowns
from slurm_ext.control.coscheduling.pair_memory import Nowhere, PairingFolder
from slurm_ext.control.coscheduling.speed_monitor import SpeedMonitor, on_this_machine
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.signals import signals
from slurm_ext.slurm.client import SlurmClient

MOST_FAILURES = 3
log = logging.getLogger("dlqueue.pairing")


def pair(settings: Settings, client: SlurmClient) -> None:
    """Work until SIGTERM or SIGINT. Raises InputError, OSError."""
    folder = PairingFolder(settings.state_dir)
    held = folder.lock()
    try:
        pairing = _pairing(settings, client, folder)
        if count := pairing.restore():
            log.warning("an earlier one did not end well: %d jobs freed", count)
        try:
            with signals() as told:
                _serve(pairing, settings, told)
        finally:
            pairing.restore()
            folder.silent()
    finally:
        os.close(held)


def once(settings: Settings, client: SlurmClient) -> dict[str, Any]:
    """What would be done now, and why; nothing is changed or recorded. Raises SlurmError."""
    silent = Settings(
        source=settings.source, values={**settings.values, "sharing.pairing": "shadow"}
    )
    folder = Nowhere(settings.state_dir)
    _pairing(silent, client, folder).round()
    return folder.status


def restore(settings: Settings, client: SlurmClient) -> int:
    """Undo what a killed one left; how many jobs were concerned. Raises InputError."""
    folder = PairingFolder(settings.state_dir)
    held = folder.lock()
    try:
        return _pairing(settings, client, folder).restore()
    finally:
        os.close(held)


def _pairing(settings: Settings, client: SlurmClient, folder: PairingFolder) -> CoScheduler:
    memory = folder.load()
    live = on_this_machine(settings["node.spool_dir"])
    watch = SpeedMonitor(live, memory.solo_rates, settings["sharing.patience_s"], memory.held_bytes)
    known = ServedSlowdowns(settings.state_dir)
    return CoScheduler(settings, client, folder, memory, known=known, watch=watch, held=known.held)


def _serve(pairing: CoScheduler, settings: Settings, told: int) -> None:
    log.info("pairing in mode %s", settings["sharing.pairing"])
    kill_file = Path(settings["paths.kill_file"])
    safe = _Safe(pairing)
    while True:
        if kill_file.exists():
            if pairing.memory.leases:
                log.info("%s is there: every job is free", kill_file)
                pairing.restore()
        else:
            safe.round()
        if select.select([told], [], [], settings["sharing.interval_s"])[0]:
            return


class _Safe:
    """Rounds of which an error hurts no job; the third in a row frees every job."""

    def __init__(self, pairing: CoScheduler) -> None:
        self._pairing, self._failures = pairing, 0

    def round(self) -> None:
        try:
            self._pairing.round()
            self._failures = 0
        except Exception:  # whatever it is: leases end by themselves
            self._failures += 1
            log.exception("this round failed; the jobs stay as they are")
            if self._failures == MOST_FAILURES:
                self._pairing.restore()
