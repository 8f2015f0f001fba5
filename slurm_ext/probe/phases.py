"""Measurements of one loader: its passes, added up into the first epoch and the later ones."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from typing import Any, Callable

from . import fetching, machine
from .autotune import NEVER
from .directive import MAX_WORKERS as MOST_WORKERS
from .gate import Gate
from .stalls import fetch_file
from .stalls.fetch_times import FetchTimes
from .stalls.phase_row import add, phase_row

_LOOK_EVERY_S = 0.2
_CLOSELY = 3  # batches after each look around which the kernel is asked: some 40 us each time
_MOSTLY = 0.9  # of the batches tell their samples: so many do in all
_START_SHARE = 0.02  # of a pass, that starting workers which may never work can cost


class Pass:
    """One pass over a loader, from `iter()` to its end. Times are seconds on the wall."""

    def __init__(self, iterator: Any, meter: LoaderMeter, pids: tuple[int, ...]) -> None:
        self.iterator = weakref.ref(iterator)
        self.meter = meter
        self.home = fetching.FetchMeter()  # fetches in this process
        self.workers_now: Callable[[], int] = lambda: 0
        self.gate: Gate | None = None
        self.workers: Callable[[], Any] = lambda: None  # the gated iterator behind, while it lives
        self.knob: Gate | None = None  # the gate that a tuner may turn
        self.tune_at = NEVER  # batches after which the tuner wants to be called
        self.go_home: Callable[[], None] = lambda: None  # ends the workers within the pass
        self.over = False
        self.undecided = False  # its workers' first fetches are looked at, and not over
        self.batches = 0
        self.steps = 0  # of the optimisers, done with its batches
        self.counts_rows = False  # nobody but the batch itself tells its samples
        self.fetches_batches = False  # its dataset or the user's code makes whole batches
        self._rows = [0, 0]  # samples counted, and the batches that they came in
        self.left: tuple[float, float, int, int] | None = None  # turns.py's
        self.wait_s = 0.0
        self.first_wait_s = 0.0  # for the first batch: workers start, queues fill
        self.step_s = 0.0
        self.closely = 0  # batches from now on around which the time in the queue is read
        self.wait_queued_s = 0.0  # waiting for a core in those batches
        self.step_queued_s = 0.0
        self._queued_total_s = 0.0  # waiting for a core in all; NaN where the kernel is silent
        self._queued_s = machine.queued_s()
        self._weighed = [0, 0]  # batches, and bytes in them
        self.last = 0.0  # when the latest batch was handed over
        self.due = 0.0
        self._workers_s = 0.0
        self._lent_s = 0.0
        self._looked = time.perf_counter()
        self._began = self._looked
        self._main_cpu_s = time.process_time()
        self._main_cpu_end_s = self._main_cpu_s
        self._before: dict[int, tuple[float, ...]] = {}
        self._times_before: dict[int, FetchTimes] = {}
        self.join(pids)

    def join(self, pids: tuple[int, ...]) -> None:
        """Counts these workers' fetches from now on."""
        for pid in pids:
            self._before[pid] = fetch_file.read_totals(self._path(pid))
            self._times_before[pid] = fetch_file.read_times(self._path(pid))

    def _path(self, pid: int) -> str:
        return fetch_file.path_of(self.meter.run_dir, pid)

    def look(self, now: float) -> None:
        """Note how many workers work, for their mean, and look closely at the next batches."""
        if self.batches == 1 and not self.first_wait_s:
            self.first_wait_s = self.wait_s
        working = self.workers_now() + (self.gate.lent if self.gate else 0)
        self._workers_s += working * (now - self._looked)
        if self.gate is not None and self.gate.lent:
            self._lent_s += now - self._looked
        self._looked = now
        self.due = now + _LOOK_EVERY_S
        self._main_cpu_end_s = time.process_time()
        self.queued()
        self.closely = _CLOSELY

    def queued(self) -> float:
        """Seconds that this thread waited for a core since it was last asked."""
        before, self._queued_s = self._queued_s, machine.queued_s()
        lately = self._queued_s - before
        lately = 0.0 if lately < 0 else lately  # below zero: the loop went over to another thread
        self._queued_total_s += lately
        return lately

    def _queued_waiting_s(self) -> float:
        """The part of the time in the queue that fell into waits: all of it, split as measured."""
        close_s = self.wait_queued_s + self.step_queued_s
        wait, both = (
            (self.wait_queued_s, close_s) if close_s else (self.wait_s, self.wait_s + self.step_s)
        )
        return min(self._queued_total_s * wait / both, self.wait_s) if both else 0.0

    def weigh(self, batch: Any) -> None:
        """Note the bytes of a batch, now and then."""
        self._weighed[0] += 1
        self._weighed[1] += fetching.tensor_bytes(batch)

    def batch_bytes(self) -> float:
        """Mean bytes of a batch, as far as any were weighed."""
        return self._weighed[1] / max(1, self._weighed[0])

    def count_rows(self, batch: Any) -> None:
        """Count the samples of a batch, where it tells them."""
        try:
            size = fetching.rows(batch)
        except Exception:  # a batch of the user's own kind
            size = None
        if size is not None:
            self._rows[0] += size
            self._rows[1] += 1

    def apart(self, seconds: float, cpu_s: float) -> None:
        """Leave out a validation that lay within the step which is now at its end."""
        self.last += seconds
        self._main_cpu_s += cpu_s

    def _samples(self, fetched: tuple[float, ...]) -> float:
        if not self.counts_rows:
            return self.meter.samples(self.batches, fetched)
        counted, batches = self._rows
        if batches < _MOSTLY * self.batches or not batches:
            return self.batches
        return round(self.batches * counted / batches)

    def private_bytes(self) -> int:
        """Memory of the largest worker."""
        return int(max([fetch_file.read_totals(self._path(pid))[5] for pid in self._before] or [0]))

    def findings(self) -> list[float]:
        """Findings of a look at each worker's first fetches (streams.py)."""
        return [fetch_file.read_totals(self._path(pid))[7] for pid in self._before]

    def fetched(self) -> tuple[float, ...]:
        """Totals of fetching in this pass, of all processes, in the form of `read_totals`."""
        fetched = self.home.totals()
        for pid, before in self._before.items():
            now = fetch_file.read_totals(self._path(pid))
            fetched = tuple(a + b - c for a, b, c in zip(fetched, now, before))
        return fetched

    def _fetch_times(self) -> FetchTimes:
        """Histogram of this pass's fetches, of all processes."""
        times = FetchTimes() + self.home.times
        for pid, before in self._times_before.items():
            times += fetch_file.read_times(self._path(pid)).since(before)
        return times

    def in_flight(self) -> int:
        """Batches that workers were asked for and that are not delivered yet."""
        workers = self.workers()
        return 0 if workers is None else int(workers._send_idx - workers._rcvd_idx)

    def totals(self) -> dict[str, Any]:
        """This pass's part of a phase; all additive."""
        fetched = self.fetched()
        elapsed = max(self._looked - self._began, 1e-9)
        wall = self.wait_s + self.step_s
        wait_queued_s = self._queued_waiting_s()
        samples = self._samples(fetched)
        each = samples / self.batches if self.fetches_batches and self.batches else 1
        return {
            "epochs": 1 if self.batches else 0,
            "samples": samples,
            "batches": self.batches,
            "steps": self.steps,
            "wall_s": wall,
            "wait_s": self.wait_s,
            "step_s": self.step_s,
            "first_wait_s": min(self.first_wait_s, self.wait_s),
            "workers": wall * self._workers_s / elapsed,
            "lent_s": wall * self._lent_s / elapsed,
            "fetch_samples": fetched[0] * each,
            "fetch_wall_s": fetched[2],
            "fetch_cpu_s": fetched[3],
            "fetch_times": self._fetch_times(),
            "bytes_read": fetched[4],
            "main_cpu_s": self._main_cpu_end_s - self._main_cpu_s,
            "fetch_queued_s": fetched[6],
            "wait_queued_s": wait_queued_s,
            "step_queued_s": self._queued_total_s - wait_queued_s,
            "delivered_bytes": self.batches * self.batch_bytes(),
        }

    def forget_workers(self) -> None:
        """Removes the totals of workers that are gone."""
        for pid in self._before:
            with contextlib.suppress(OSError):
                os.unlink(self._path(pid))


class LoaderMeter:
    """One loader's numbers over all its passes, and how its workers were set."""

    def __init__(self, number: int, facts: dict[str, Any], run_dir: str) -> None:
        self.number = number
        self.owner: Callable[[], Any] = lambda: None  # the loader, while it lives
        self.facts = facts
        self.run_dir = run_dir
        self.rows_in_all: int | None = None  # samples of a full pass, where that is known
        self.startup_s = 0.0
        self.worker_private = 0
        self.memory_due = 0.0  # when the room for its workers is to be looked at again
        self.tuner: Any = None  # where the loader finds its own count of workers
        self.pass_batches: int | None = None  # of a full pass
        self.latest_start_s = 0.0
        self.gated: int | None = None  # workers started for the directive
        self.gate_open: int | None = None
        self.most_workers: int | None = None  # as many as the gate can open
        self._start_each_s = 0.0  # what starting one worker took, last time
        self._pass_s = 0.0  # what the last whole pass took
        self.left_alone: str | None = None
        self.fallback: str | None = None
        self.kept: str | None = None  # left alone for good: the trial said why
        self._trusted: weakref.ref[Any] | None = None
        self._passes: list[Pass] = []
        self._lasting: Pass | None = None  # the latest pass of persistent workers
        self._closed: dict[str, dict[str, Any]] = {}

    def samples(self, batches: int, fetched: tuple[float, ...]) -> int:
        """Samples in so many batches: exact where batches are whole, else by what was fetched.

        A loader that begins anew by itself delivers more than its dataset holds.
        """
        size, in_all = self.facts["batch_size"] or 1, self.rows_in_all
        if in_all is not None and (batches - 1) * size < in_all:
            return int(min(batches * size, in_all))
        return round(batches * fetched[0] / fetched[1]) if fetched[1] else int(batches * size)

    def started(self, seconds: float, workers: int) -> None:
        """Starting so many workers took so long."""
        self.startup_s += seconds
        self.latest_start_s = seconds
        if workers:
            self._start_each_s = seconds / workers

    def start_each_s(self) -> float:
        """Seconds that each pass spends on starting one worker."""
        return 0.0 if self.facts["persistent"] else self._start_each_s

    def worth_starting(self) -> int:
        """As many workers as take a small share of a pass to start, where each pass starts them."""
        if self.facts["persistent"] or not (self._start_each_s and self._pass_s):
            return MOST_WORKERS
        return int(_START_SHARE * self._pass_s / self._start_each_s)

    def trust(self, loader: Any) -> None:
        """This very loader's dataset went well in workers: no trial at home next time."""
        self._trusted = weakref.ref(loader)

    def trusts(self, loader: Any) -> bool:
        """True if `trust` was called for this loader."""
        return self._trusted is not None and self._trusted() is loader

    def begin(self, current: Pass) -> None:
        """A new pass; those whose iterator is gone, or is used again, have ended."""
        fresh = current.iterator()
        for old in list(self._passes):
            if old.iterator() in (None, fresh):
                self.end(old)
        self._passes.append(current)

    def end(self, current: Pass) -> None:
        """Adds a pass to its phase, once."""
        current.over = True
        if current in self._passes:
            self._passes.remove(current)
            self._pass_s = current.wait_s + current.step_s
            self.worker_private = max(self.worker_private, current.private_bytes())
            add(self._phase(), current.totals())
            self._lasting = current if self.facts["persistent"] else None
            if self._lasting is None:
                current.forget_workers()

    def forget_workers(self) -> None:
        """At Python's end: no totals file stays."""
        for current in [*self._passes, *([self._lasting] if self._lasting else [])]:
            current.forget_workers()

    def _phase(self) -> dict[str, Any]:
        name = "later" if "first_epoch" in self._closed else "first_epoch"
        return self._closed.setdefault(name, {})

    def row(self) -> dict[str, Any]:
        """The loader's part of the summary, passes under way included."""
        phases = {name: dict(total) for name, total in self._closed.items()}
        for current in self._passes:
            self.worker_private = max(self.worker_private, current.private_bytes())
            name = "later" if "first_epoch" in self._closed else "first_epoch"
            add(phases.setdefault(name, {}), current.totals())
        return {
            "id": self.number,
            **{key: self.facts[key] for key in ("dataset", "style", "batch_size", "length")},
            "user_num_workers": self.facts["user_num_workers"],
            "started_workers": self.facts["user_num_workers"] if self.gated is None else self.gated,
            "gate": self.gate_open,
            "most_workers": self.most_workers,
            "method": "own" if self.gated is None else "gated",
            "left_alone": self.left_alone,
            "fallback": self.fallback,
            "worker_rss_bytes": self.worker_private or None,
            "startup_s": self.startup_s,
            "tuned": self.tuner and self.tuner.row(self.facts["batch_size"] or 1),
            "phases": [phase_row(name, total) for name, total in phases.items()],
        }
