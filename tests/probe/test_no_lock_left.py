"""Workers that are killed or stopped leave no lock that the training would wait for."""

import multiprocessing
import os
import threading
from types import SimpleNamespace
from typing import Any

from slurm_ext.probe.lazy_workers import LazyWorkers
from slurm_ext.probe.lending.lent_worker import Ended


class Locked:
    """torch's event after its holder was killed: whoever sets it waits for ever."""

    def set(self) -> None:
        """What must not be called."""
        raise AssertionError("its lock is a dead worker's")


def test_an_event_whose_lock_died_is_not_set() -> None:
    """Workers that went home are killed first; torch then ends what is left of the iterator."""
    ended: list[Any] = []
    workers = SimpleNamespace(_workers_done_event=Locked(), _workers=[])
    workers._workers.append(SimpleNamespace(kill=lambda: ended.append("killed")))

    def shut_down() -> None:
        workers._workers_done_event.set()
        ended.append("shut down")

    workers._shutdown_workers = shut_down
    lazy = LazyWorkers.__new__(LazyWorkers)
    lazy.workers = workers
    lazy._end_workers()
    assert ended == ["killed", "shut down"]


def test_a_lent_workers_end_needs_no_lock() -> None:
    """A forked worker sees the flag; one that is stopped between two looks holds nothing."""
    context = multiprocessing.get_context("fork")
    ended, seen = Ended(), context.Queue()

    def look() -> None:
        seen.put(ended.is_set())
        while not ended.is_set():
            os.sched_yield()
        seen.put(True)

    child = context.Process(target=look, daemon=True)
    child.start()
    assert seen.get(timeout=60) is False
    threading.Thread(target=ended.set).start()
    assert seen.get(timeout=60) is True
    child.join(60)
    assert child.exitcode == 0
