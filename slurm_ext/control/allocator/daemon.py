"""`dlqueue control`: rounds until told to end; whoever dies is noticed at once."""

import logging
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from slurm_ext.control.allocator.allocator_round import Allocator
from slurm_ext.control.allocator.jobs import SpooledJobs
from slurm_ext.control.allocator.slurm import SlurmNodeQuery
from slurm_ext.control.allocator.undo_log import Folder
from slurm_ext.control.loops.reload import read_again
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.signals import signals
from slurm_ext.node.common.spool_layout import Spool
from slurm_ext.slurm.client import SlurmClient

POLL_S = 0.5  # a look at the names of the jobs that run
TAKEN = ("control.", "paths.kill_file")  # settings that SIGHUP reads again
log = logging.getLogger("dlqueue.control")


def control(settings: Settings, client: SlurmClient, again: Callable[[], Settings]) -> None:
    """Work until SIGTERM or SIGINT, then give everything back. Raises InputError, OSError.

    SIGHUP: go on with the settings that `again` reads, where they are sound.
    """
    folder = Folder(Spool(settings["node.spool_dir"]))
    held = folder.lock()
    try:
        if count := folder.restore():
            log.warning("an earlier controller did not end well: %d jobs restored", count)
        with signals(signal.SIGHUP) as told:
            while _serve(settings, client, folder, told):
                settings = read_again(settings, again, TAKEN, log)
    finally:
        (folder.path / "status.json").unlink(missing_ok=True)
        os.close(held)


def once(settings: Settings, client: SlurmClient) -> dict[str, Any]:
    """What would be done now, by job, and why; nothing is changed or recorded."""
    values = {**settings.values, "control.mode": "shadow"}
    folder = _Nowhere(Spool(settings["node.spool_dir"]))
    silent = Settings(source=settings.source, values=values)
    _controller(silent, client, folder).round()
    return folder.status


def restore(settings: Settings) -> int:
    """Undo what a killed controller left; how many jobs were concerned. Raises InputError."""
    folder = Folder(Spool(settings["node.spool_dir"]))
    held = folder.lock()
    try:
        return folder.restore()
    finally:
        os.close(held)


class _Nowhere(Folder):
    """Keeps the status to itself."""

    def __init__(self, spool: Spool) -> None:
        super().__init__(spool)
        self.status: dict[str, Any] = {}

    def keep(self, jobs: Any) -> None:
        pass

    def note(self, entry: Any) -> None:
        pass

    def tell(self, status: Any) -> None:
        self.status = dict(status)


def _controller(settings: Settings, client: SlurmClient, folder: Folder) -> Allocator:
    jobs = SpooledJobs(Spool(settings["node.spool_dir"]))
    slurm = SlurmNodeQuery(client, lends_idle=settings["control.may_use_idle_cpus"])
    return Allocator(settings, jobs, folder, slurm)


def _serve(settings: Settings, client: SlurmClient, folder: Folder, told: int) -> bool:
    """Rounds under these settings, then everything is given back; True: read them again."""
    log.info("controlling in mode %s", settings["control.mode"])
    controller = _controller(settings, client, folder)
    try:
        return _rounds(controller, told, Path(settings["paths.kill_file"]))
    finally:
        controller.restore()


def _rounds(controller: Allocator, told: int, kill_file: Path) -> bool:
    wait = _Waiter(controller, told)
    while True:
        if kill_file.exists():
            if controller.controlled:
                log.info("%s is there: everything is given back", kill_file)
                controller.restore()
        else:
            controller.safe_round()
            controller.keep_up()
        if said := wait.told():
            return set(said) == {signal.SIGHUP}


class _Waiter:
    """Until the next round is due, a job comes or goes, a training dies, or a signal comes."""

    def __init__(self, controller: Allocator, told: int) -> None:
        self._controller, self._told = controller, told

    def told(self) -> bytes:
        """The signals that came; empty: none."""
        due_s = time.monotonic() + self._controller.settings["control.interval_s"]
        before = self._controller.job_keys()
        with _watching(self._controller.pids()) as lives:
            while (left_s := due_s - time.monotonic()) > 0:
                ready, _, _ = select.select([self._told, *lives], [], [], min(POLL_S, left_s))
                if self._told in ready:
                    return os.read(self._told, 64)
                if ready or self._controller.job_keys() != before:
                    return b""
        return b""


@contextmanager
def _watching(pids: list[int]) -> Iterator[list[int]]:
    """Descriptors that become readable when their process ends."""
    lives: list[int] = []
    try:
        for pid in pids:
            with suppress(OSError):
                lives.append(os.pidfd_open(pid))
        yield lives
    finally:
        for life in lives:
            os.close(life)
