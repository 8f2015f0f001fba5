"""`dlqueue control`: rounds until told to end; whoever dies is noticed at once."""

import logging
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from slurm_ext.cluster.client import SlurmClient
from slurm_ext.control.jobs import Jobs
from slurm_ext.control.kept import Folder
from slurm_ext.control.loop import Controller
from slurm_ext.control.slurm import Slurm
from slurm_ext.facts.settings import Settings
from slurm_ext.node.places import Spool

POLL_S = 0.5  # a look at the names of the jobs that run
log = logging.getLogger("dlqueue.control")


def control(settings: Settings, client: SlurmClient) -> None:
    """Work until SIGTERM or SIGINT, then give everything back. Raises InputError, OSError."""
    folder = Folder(Spool(settings["node.spool_dir"]))
    held = folder.lock()
    try:
        if count := folder.restore():
            log.warning("an earlier controller did not end well: %d jobs restored", count)
        controller = _controller(settings, client, folder)
        try:
            with signals() as told:
                _serve(controller, told, Path(settings["paths.kill_file"]))
        finally:
            controller.restore()
            (folder.path / "status.json").unlink(missing_ok=True)
    finally:
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
        self.path = Path(spool.root, "control")
        self.status: dict[str, Any] = {}

    def keep(self, jobs: Any) -> None:
        pass

    def note(self, entry: Any) -> None:
        pass

    def tell(self, status: Any) -> None:
        self.status = dict(status)


def _controller(settings: Settings, client: SlurmClient, folder: Folder) -> Controller:
    jobs = Jobs(Spool(settings["node.spool_dir"]))
    slurm = Slurm(client, lends_idle=settings["control.may_use_idle_cpus"])
    return Controller(settings, jobs, folder, slurm)


def _serve(controller: Controller, told: int, kill_file: Path) -> None:
    log.info("controlling in mode %s", controller.settings["control.mode"])
    wait = _Waiter(controller, told)
    while True:
        if kill_file.exists():
            if controller.tenancies:
                log.info("%s is there: everything is given back", kill_file)
                controller.restore()
        else:
            controller.safe_round()
            controller.keep_up()
        if wait.told_to_end():
            return


class _Waiter:
    """Until the next round is due, a job comes or goes, a training dies, or we are to end."""

    def __init__(self, controller: Controller, told: int) -> None:
        self._controller, self._told = controller, told

    def told_to_end(self) -> bool:
        due_s = time.monotonic() + self._controller.settings["control.interval_s"]
        before = self._controller.job_keys()
        with _watching(self._controller.pids()) as lives:
            while (left_s := due_s - time.monotonic()) > 0:
                ready, _, _ = select.select([self._told, *lives], [], [], min(POLL_S, left_s))
                if self._told in ready:
                    return True
                if ready or self._controller.job_keys() != before:
                    return False
        return False


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


@contextmanager
def signals() -> Iterator[int]:
    """A descriptor that becomes readable when we are to end."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = {n: signal.signal(n, lambda *_: None) for n in (signal.SIGTERM, signal.SIGINT)}
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
