"""Lent workers: more workers on other jobs' idle cores, at idle priority.

`$DLQUEUE_RUN_DIR/lent` says `<count> <cores>`: so many lent workers of this process, which may run
on these cores (`0-3,8`) beside the job's own. They lower themselves before they run any of the
dataset's code. The node then widens the cores of theirs alone; only one that the kernel lets run
there is given work, so that nobody waits for a worker that has no core. Without the file, or when
its cores are taken back, a lent worker finishes what it has, at the usual priority again.

A core may be gone in the middle of a batch: then the lent worker stands still for as long as its
owner, or a process that no job knows, computes. Once the training has to wait for a batch of one
that was silent for a few batches' time, the job's own workers make all that it holds. It gets work
again after it returned what it owes; a batch that comes twice is delivered once.

Lent workers are added to a pass that runs (growth.py), where memory and /dev/shm hold them, and to
each new one. They count neither in the gate nor in what the loader is asked for.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from typing import Any, Callable

from ..lending.lent_worker import LentWorker
from ..stalls import fetch_file
from . import growth
from .room import MAX_WORKERS

_MAX_CPU = 8192
_OLD = 0.8  # weight of what was measured before the latest look
_FEWEST = 0.2  # batches lately that tell a speed
_UNKNOWN = 2.0  # slowness of a worker that has made nothing yet
_FORGOTTEN = 0.9  # at each look
_SLOWEST = 1000.0
_PATIENCE = 3.0  # times an own worker's batch: what one that is slow for a moment may take,
_LEAST_PATIENCE_S = 0.2  # but more than a scheduler's turn
_UNMEASURED_S = 1.0  # patience before any own worker made a batch


class LentWorkers:
    """The lent workers of one gated iterator."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.ids: list[int] = []  # in the iterator's list of workers
        self.active: list[int] = []  # may be given work now
        self.refused = False  # no worker could be added: not tried again in this pass
        self._speeds = _Speeds(os.path.dirname(path))

    def slowness(self, worker: int) -> float:
        """Time of a batch in this worker, as a multiple of that in the loader's own workers."""
        return self._speeds.slowness.get(worker, 1.0)

    def look(self, iterator: Any, room: Callable[[], int]) -> tuple[int, ...]:
        """Follow the file; returns the pids of workers that were added, at most `room()`."""
        count, cores = _loan(self.path)
        missing = count - len(self.ids)
        added = self._add(iterator, min(missing, room())) if missing > 0 else ()
        lent = [number for number in self.ids[:count] if iterator._workers[number].usable]
        self.active = [number for number in lent if _runs(iterator._workers[number].pid, cores)]
        if self.ids:
            self._speeds.look(iterator, self.ids)
        return added

    def _add(self, iterator: Any, missing: int) -> tuple[int, ...]:
        if missing <= 0 or self.refused:
            return ()
        before = len(iterator._workers)
        added = growth.add_workers(iterator, missing, _lower)
        self.ids += range(before, before + len(added))
        self.refused = not (added or growth.may_add_later(iterator))
        return added

    # -- one that is silent ----------------------------------------------------------------------

    def receive(self, iterator: Any, wait: Callable[[float], Any], timeout_s: float) -> Any:
        """Torch's `wait` for a batch, which a silent lent worker does not prolong."""
        ends = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, ends - time.monotonic())
            done, data = wait(min(left_s, self._relieve(iterator)))
            if done and not _came_before(iterator, data[0]):
                return True, data
            if not (done or left_s):
                return False, None

    def _relieve(self, iterator: Any) -> float:
        """Hand over what is waited for in vain; returns in how many seconds it may be due."""
        task = iterator._task_info.get(iterator._rcvd_idx, ())
        lent = iterator._workers[task[0]] if len(task) == 1 else None
        if not isinstance(lent, LentWorker):
            return math.inf
        left_s = self._patience_s() - lent.silent_s()
        if left_s > 0 and not lent.gone:
            return left_s
        self._hand_over(iterator, lent)
        return math.inf

    def _patience_s(self) -> float:
        own_s = self._speeds.own_s
        return max(_LEAST_PATIENCE_S, _PATIENCE * own_s) if own_s else _UNMEASURED_S

    def _hand_over(self, iterator: Any, lent: LentWorker) -> None:
        """Ask the job's own workers for all that it holds."""
        self.active = [number for number in self.active if iterator._workers[number] is not lent]
        for batch, index in sorted(lent.take().items()):
            worker = iterator._dlqueue_open.least_busy(self.ids)
            iterator._task_info[batch] = (worker,)
            iterator._index_queues[worker].put((batch, index))


def _came_before(iterator: Any, batch: Any) -> bool:
    """True of a batch that another worker brought already; what is no batch has no number."""
    return isinstance(batch, int) and len(iterator._task_info.get(batch, ())) != 1


def _runs(pid: int, cores: set[int]) -> bool:
    """True if a worker of ours is allowed on any of these cores; its priority is lowered."""
    _lower(pid)
    try:
        return bool(os.sched_getaffinity(pid) & cores)
    except OSError:
        return False


class _Speeds:
    """Slowness of lent workers, by what each worker's fetches took lately."""

    def __init__(self, run_dir: str) -> None:
        self.slowness: dict[int, float] = {}
        self.own_s = 0.0  # of a batch in the loader's own workers; 0: not measured yet
        self._run_dir = run_dir
        self._before: dict[int, tuple[float, float]] = {}  # batches made, seconds
        self._lately: dict[int, tuple[float, float]] = {}
        self._looked_s = time.monotonic()

    def look(self, iterator: Any, lent: list[int]) -> None:
        """Compare the lent workers with all others."""
        now_s = time.monotonic()
        elapsed_s, self._looked_s = now_s - self._looked_s, now_s
        for worker, process in enumerate(iterator._workers):
            totals = fetch_file.read_totals(fetch_file.path_of(self._run_dir, process.pid))
            self._add(worker, totals[1], totals[2])
        own = [part for worker, part in self._lately.items() if worker not in lent]
        own_s = _each(sum(part[0] for part in own), sum(part[1] for part in own))
        self.own_s = own_s or self.own_s
        busy = {task[0] for task in list(iterator._task_info.values()) if len(task) == 1}
        for worker in lent if own_s else ():
            self._judge(worker, own_s, elapsed_s if worker in busy else 0.0)

    def _add(self, worker: int, batches: float, seconds: float) -> None:
        before = self._before.get(worker, (0.0, 0.0))
        lately = self._lately.get(worker, (0.0, 0.0))
        self._before[worker] = batches, seconds
        new = batches - before[0], seconds - before[1]
        self._lately[worker] = lately[0] * _OLD + new[0], lately[1] * _OLD + new[1]

    def _judge(self, worker: int, own_s: float, waited_s: float) -> None:
        """One that finishes nothing gets slower by the time; without work it is tried again."""
        each_s = _each(*self._lately[worker])
        known = self.slowness.get(worker, _UNKNOWN)
        if each_s:
            known = each_s / own_s
        elif waited_s:
            known += waited_s / own_s
        else:
            known = max(1.0, known * _FORGOTTEN)
        self.slowness[worker] = min(_SLOWEST, max(1 / _SLOWEST, known))


def _each(batches: float, seconds: float) -> float:
    """Seconds of a batch; 0 if hardly any was made lately."""
    return seconds / batches if batches > _FEWEST else 0.0


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
        return max(0, min(int(count), MAX_WORKERS)), _cores(cores.decode("ascii"))
    except (OSError, ValueError):
        return 0, set()


def _cores(text: str) -> set[int]:
    cores: set[int] = set()
    for item in text.split(","):
        first, _, last = item.partition("-")
        cores.update(range(int(first), min(int(last or first), _MAX_CPU) + 1))
    return cores
