"""Cost of fetching: wall and CPU seconds, samples, bytes; measured in the process that does it.

A worker keeps its totals in a small file, `fetch-<pid>`, which the training process reads: that
works under fork and spawn, and survives a killed worker.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, Tuple

from ..inspection.guarding import Guard
from ..stalls import fetch_file
from ..stalls.fetch_times import FetchTimes
from . import machine

_BYTES_EVERY_S = 0.3  # /proc/self/io costs up to 80 microseconds
_QUEUED_EVERY_S = 0.1  # schedstat costs 4 microseconds, and 40 after a step that emptied the caches
_MEMORY_EVERY_S = 5.0  # smaps_rollup costs milliseconds
_SHORT_S = 0.0002  # shorter fetches are timed only now and then, once
_SKIP_AFTER = 64  # so many were timed,
_SKIP = 15  # one in sixteen

_Read = Tuple[Tuple[float, ...], FetchTimes]


class FetchMeter:
    """Totals of one process's fetches; bytes are taken now and then and scaled to all samples.

    In the training process the CPU is this thread's: torch's other threads spin between tensors.
    """

    clock = staticmethod(time.thread_time)

    def __init__(self) -> None:
        self.skip = 0  # fetches that go by untimed from now on; the caller counts down
        self._skipped = 0
        self.may_skip = True
        self.samples = 0
        self.batches = 0
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self._queued_s = 0.0  # of the fetches around which the kernel was asked,
        self._queued_wall_s = 0.0  # which took so long
        self._next_queued = 0.0
        self._bytes = 0
        self._bytes_samples = 0
        self._next_bytes = 0.0
        self.times = FetchTimes()
        self._latest_bin = 0

    def fetch(self, original: Callable[..., Any], fetcher: Any, index: Any) -> Any:
        """One fetch, timed; what fails in timing it is not the job's affair."""
        began = time.perf_counter()
        read = machine.bytes_read() if began >= self._next_bytes else None
        queued = machine.queued_s() if began >= self._next_queued else None
        began, cpu = time.perf_counter(), self.clock()
        data = original(fetcher, index)
        cpu, now = self.clock() - cpu, time.perf_counter()
        try:  # contextlib.suppress takes longer than what it protects
            self._add(now - began, cpu, len(index) if fetcher.auto_collation else 1)
            if queued is not None:
                self._add_queued(machine.queued_s() - queued, now - began, now)
            if read is not None:
                self._add_bytes(read, len(index) if fetcher.auto_collation else 1, now)
        except Exception:  # noqa: S110 - the job's own batch is there
            pass
        return data

    def _add(self, wall: float, cpu: float, samples: int) -> None:
        self.samples += samples
        self.batches += 1
        self.cpu_s += cpu
        self.wall_s += wall
        if self.may_skip and wall < _SHORT_S and self.batches > _SKIP_AFTER:
            self.skip = _SKIP
            self._skipped += _SKIP
        self._latest_bin = self.times.add(wall, 1 + self.skip)

    def _add_queued(self, queued: float, wall: float, now: float) -> None:
        self._queued_s += queued
        self._queued_wall_s += wall
        self._next_queued = now + _QUEUED_EVERY_S

    def _add_bytes(self, before: int, samples: int, now: float) -> None:
        self._bytes += (machine.bytes_read() or before) - before
        self._bytes_samples += samples
        self._next_bytes = now + _BYTES_EVERY_S

    def totals(self) -> tuple[float, ...]:
        """The totals so far, in the form of `read_totals`; untimed fetches count like the timed."""
        scale = self._scale()
        each = self.samples / self._bytes_samples if self._bytes_samples else 0.0
        asked = self.wall_s / self._queued_wall_s if self._queued_wall_s else 0.0
        return (
            self.samples * scale,
            self.batches * scale,
            self.wall_s * scale,
            self.cpu_s * scale,
            self._bytes * each * scale,
            0.0,
            self._queued_s * asked * scale,
        )

    def _scale(self) -> float:
        """All fetches, for each of those that were timed."""
        batches = self.batches + self._skipped - self.skip
        return batches / self.batches if self.batches else 0.0


class HomeMeter(FetchMeter):
    """The training process's own fetches, and what all its threads computed meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._process_s = 0.0

    def fetch(self, original: Callable[..., Any], fetcher: Any, index: Any) -> Any:
        """One fetch, timed."""
        before = time.process_time()
        data = super().fetch(original, fetcher, index)
        self._process_s += time.process_time() - before
        return data

    def process_cpu_s(self) -> float:
        """CPU of the process during its fetches; those that went by untimed count like the rest."""
        return self._process_s * self._scale()


class WorkerMeter(FetchMeter):
    """A worker's totals, in a file for its parent; `guard` also checks each batch."""

    clock = staticmethod(time.process_time)

    def __init__(self, run_dir: str, guard: Guard | None, memory_after: int = 1) -> None:
        super().__init__()
        self.memory_after = memory_after  # fetches; later ones do not hold up the epoch's start
        self.guard = guard
        self.may_skip = guard is None or not guard.refuses  # such a guard looks at every batch
        self.private = 0.0
        self._next_memory = 0.0
        self._file: fetch_file.FetchFile | None = None
        with contextlib.suppress(OSError, ValueError):
            self._file = fetch_file.FetchFile(fetch_file.path_of(run_dir, os.getpid()))

    def fetch(self, original: Callable[..., Any], fetcher: Any, index: Any) -> Any:
        """One fetch, timed, checked and published."""
        state = self.guard.before(fetcher) if self.guard else None
        data = super().fetch(original, fetcher, index)
        if self.guard:
            self.guard.after(state, data)
        try:  # noqa: SIM105 - as above
            self._publish()
        except Exception:  # noqa: S110 - as above
            pass
        return data

    def _publish(self) -> None:
        if self._file is None:
            return
        now = time.perf_counter()
        if now >= self._next_memory and self.batches >= self.memory_after:
            self.private = float(machine.private_bytes() or 0)
            self._next_memory = now + _MEMORY_EVERY_S
        totals = self.totals()
        found = self.guard.finding if self.guard else 0.0
        shown = (*totals[:5], self.private, totals[6], found)
        self._file.publish(shown, self.times, self._latest_bin)


class WorkersTotals:
    """Totals of a pass's workers.

    They fetch before the pass is made. So new ones count from their start on, and those that last
    from where the former pass ended.
    """

    def __init__(self, run_dir: str) -> None:
        self.run_dir = run_dir
        self._since: dict[int, _Read] = {}
        self._until: dict[int, _Read] = {}  # of a pass that ended

    def join(self, pids: tuple[int, ...], former: WorkersTotals | None = None) -> None:
        """Count these workers' fetches; `former`: of an earlier pass, to which some belonged."""
        for pid in pids:
            lasting = former if former and pid in former._since else None
            self._since[pid] = lasting._now(pid) if lasting else fetch_file.NOTHING

    def end(self) -> None:
        """Count no fetch that is made from now on."""
        self._until = {pid: self._now(pid) for pid in self._since}

    def _now(self, pid: int) -> _Read:
        return self._until.get(pid) or fetch_file.read(self._path(pid))

    def _path(self, pid: int) -> str:
        return fetch_file.path_of(self.run_dir, pid)

    def added_to(self, totals: tuple[float, ...]) -> tuple[float, ...]:
        """These totals and all workers', in the form of `read_totals`."""
        for pid, (before, _) in self._since.items():
            totals = tuple(a + b - c for a, b, c in zip(totals, self._now(pid)[0], before))
        return totals

    def times_with(self, times: FetchTimes) -> FetchTimes:
        """These fetches and all workers', as a histogram."""
        for pid, (_, before) in self._since.items():
            times = times + self._now(pid)[1].since(before)
        return times

    def private_bytes(self) -> int:
        """Memory of the largest worker."""
        return int(max(self._of_each(5) or [0]))

    def findings(self) -> list[float]:
        """Findings of a look at each worker's first fetches (streams/watch.py)."""
        return self._of_each(7)

    def _of_each(self, place: int) -> list[float]:
        return [self._now(pid)[0][place] for pid in self._since]

    def forget(self) -> None:
        """Remove the totals of workers that are gone."""
        for pid in self._since:
            with contextlib.suppress(OSError):
                os.unlink(self._path(pid))
