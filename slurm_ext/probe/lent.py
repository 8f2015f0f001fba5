"""Lent workers: more workers on other jobs' idle cores, at idle priority.

`$DLQUEUE_RUN_DIR/lent` says `<count> <cores>`: so many lent workers of this process, which may run
on these cores (`0-3,8`) beside the job's own. They lower themselves before they run any of the
dataset's code. The node then widens the cores of theirs alone; only one that the kernel lets run
there is given work, so that nobody waits for a worker that has no core. Without the file, or when
its cores are taken back, a lent worker finishes what it has, at the usual priority again.

Lent workers are added to a pass that runs (growth.py), where memory and /dev/shm hold them, and to
each new one. They count neither in the gate nor in what the loader is asked for.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable

from . import growth, machine

_MAX_WORKERS = 1024
_MAX_CPU = 8192
_SHARE = 0.8  # of the room that is left
_SHM = "/dev/shm"  # noqa: S108 - where torch puts batches, and not ours


class LentWorkers:
    """The lent workers of one gated iterator."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.ids: list[int] = []  # in the iterator's list of workers
        self.active: list[int] = []  # may be given work now
        self.refused = False  # no worker could be added: not tried again in this pass

    def look(self, iterator: Any, room: Callable[[], int]) -> tuple[int, ...]:
        """Follow the file; returns the pids of workers that were added, at most `room()`."""
        count, cores = _loan(self.path)
        missing = count - len(self.ids)
        added = self._add(iterator, min(missing, room())) if missing > 0 else ()
        self.active = []
        for worker in self.ids[:count]:
            pid = iterator._workers[worker].pid
            _lower(pid)
            with contextlib.suppress(OSError):  # it died: torch will say so
                if os.sched_getaffinity(pid) & cores:
                    self.active.append(worker)
        return added

    def _add(self, iterator: Any, missing: int) -> tuple[int, ...]:
        if missing <= 0 or self.refused:
            return ()
        before = len(iterator._workers)
        added = growth.add_workers(iterator, missing, _lower)
        self.ids += range(before, before + len(added))
        self.refused = not added
        return added


def room(private: int, per_worker: int, batch_bytes: float, prefetch: int) -> int:
    """Workers that memory and /dev/shm still hold; 0 before the memory of one was measured."""
    if not per_worker:
        return 0
    rooms = [float(_MAX_WORKERS)]
    memory = machine.room_bytes(private)
    if memory is not None:
        rooms.append(memory * _SHARE / per_worker)
    with contextlib.suppress(OSError):
        if batch_bytes:
            rooms.append(_free_bytes(_SHM) * _SHARE / (batch_bytes * (prefetch + 1)))
    return max(0, int(min(rooms)))


def _free_bytes(folder: str) -> int:
    info = os.statvfs(folder)
    return info.f_bavail * info.f_frsize


def _lower(pid: int = 0) -> None:
    """Set a worker of ours, or this process, to idle priority; its later threads follow."""
    with contextlib.suppress(OSError):
        if os.sched_getscheduler(pid) != os.SCHED_IDLE:
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


def _loan(path: str) -> tuple[int, set[int]]:
    """Count and cores of the file; (0, nothing) where it is not there, or is anything else."""
    try:
        with open(path, "rb") as file:
            count, cores = file.read(4096).split()
        return max(0, min(int(count), _MAX_WORKERS)), _cores(cores.decode("ascii"))
    except (OSError, ValueError):
        return 0, set()


def _cores(text: str) -> set[int]:
    cores: set[int] = set()
    for item in text.split(","):
        first, _, last = item.partition("-")
        cores.update(range(int(first), min(int(last or first), _MAX_CPU) + 1))
    return cores
