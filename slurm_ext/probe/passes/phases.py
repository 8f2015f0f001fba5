"""Measurements of one loader: its passes, added up into the first epoch and the later ones."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any, Callable, Dict, List, Tuple

from ..counters import machine
from ..counters.batches import BatchCounts
from ..counters.fetching import FetchMeter, WorkersTotals
from ..lending.pass_parts import PassParts
from ..stalls.fetch_times import FetchTimes
from ..stalls.phase_row import add, phase_row
from ..workers.gate import Gate
from .passed_over import PassedOver, without
from .starts import Starts

_Phase = Tuple[str, bool, bool]  # its name, whether with lent workers, and whether with steps
_Sums = List[Tuple[bool, bool, Dict[str, Any]]]  # with lent workers, with steps, and what it adds

NEVER = 1 << 62  # batches

_LOOK_EVERY_S = 0.2
_CLOSELY = 3  # batches after each look around which the kernel is asked: some 40 us each time
_OF_THE_LOADER = (
    "rows_in_all",
    "starts",
    "worker_private",
    "memory_due",
    "tuner",
    "pass_batches",
    "gated",
    "gate_open",
    "most_workers",
    "left_alone",
    "fallback",
    "kept",
    "_trusted",
)


class Pass:
    """One pass over a loader, from `iter()` to its end. Times are seconds on the wall."""

    def __init__(self, iterator: Any, meter: LoaderMeter) -> None:
        self.iterator = weakref.ref(iterator)
        self.meter = meter
        self.home = FetchMeter()  # fetches in this process
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
        self.shared_steps = 0  # of those, with another loader's batches too
        self.stepped_at = 0.0  # when the latest was done
        self.ended_at = 0.0  # when there was no batch more
        self.phase: _Phase | None = None  # that it was added to
        self.passed_over = PassedOver()
        self.evaluates = False  # no gradients, or a model's evaluation mode, or no step before it
        self.elsewhere = False  # another thread than the reading one made some
        self.counts_rows = False  # nobody but the batch itself tells its samples
        self.left: tuple[float, float, int, int] | None = None  # counters/turns.py's
        self.wait_s = 0.0
        self.first_wait_s = 0.0  # for the first batch: workers start, queues fill
        self.step_s = 0.0
        self.closely = 0  # batches from now on around which the time in the queue is read
        self.wait_queued_s = 0.0  # waiting for a core in those batches
        self.step_queued_s = 0.0
        self._queued_total_s = 0.0  # waiting for a core in all; NaN where the kernel is silent
        self._queued_s = machine.queued_s()
        self.told = BatchCounts()
        self.last = 0.0  # when the latest batch was handed over
        self.due = 0.0
        self._workers_s = 0.0
        self.parts = PassParts()
        self._looked = time.perf_counter()
        self._began = self._looked
        self._main_cpu_s = time.process_time()
        self._main_cpu_end_s = self._main_cpu_s
        self.made = WorkersTotals(meter.run_dir)

    def look(self, now: float) -> None:
        """Note how many workers work, for their mean, and look closely at the next batches."""
        if self.batches == 1 and not self.first_wait_s:
            self.first_wait_s = self.wait_s
        working = self.workers_now() + (self.gate.lent if self.gate else 0)
        self._workers_s += working * (now - self._looked)
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

    def trained_here(self) -> bool:
        """True if the thread that asks now is the one that trains, as far as that is seen."""
        alone = threading.current_thread() is threading.main_thread()
        return not self.elsewhere and (alone or self.steps > 0)

    def apart(self, seconds: float, cpu_s: float) -> None:
        """Leave out a validation that lay within the step which is now at its end."""
        self.last += seconds
        self._main_cpu_s += cpu_s

    def note_first(self, steps: int) -> None:
        """So many steps are about to be credited, and none was before."""
        self.passed_over.note(self.totals(), steps)

    def sums(self) -> _Sums:
        """Its sums, with lent workers or not, with steps or not."""
        totals = self.totals()
        parts = self.parts.all(totals)
        alone = len(parts) == 1 and not self.elsewhere
        before = self.passed_over.part(totals) if alone else {}
        trains = self.steps > 0 or not self.evaluates
        stepped = [(lent, trains, without(part, before)) for lent, part in parts.items()]
        return [(False, False, before), *stepped] if before else stepped

    def unfinished_s(self, late: int = 1) -> float:
        """The latest batch's step: a loop that counts asks for no batch more.

        At most a usual one, and after the pass's end as far as it is done: what goes on without
        batches is not of this pass. A thread that reads ahead leaves batches for `late` steps.
        """
        since = self.last or self.ended_at
        so_far_s = self.stepped_at - since if since else 0.0
        if self.elsewhere:
            usual_s = late * (self.wait_s + self.step_s) / max(1, self.batches)
        else:
            usual_s = self.step_s / max(1, self.batches - 1)
            so_far_s = usual_s if self.last and so_far_s > 0 else so_far_s
        return max(0.0, min(so_far_s, usual_s))

    def _samples(self, fetched: tuple[float, ...]) -> float:
        told = self.told.samples(self.batches) if self.counts_rows else None
        return self.meter.samples(self.batches, fetched) if told is None else told

    def fetched(self) -> tuple[float, ...]:
        """Totals of fetching in this pass, of all processes, in the form of `read_totals`."""
        return self.made.added_to(self.home.totals())

    def fetch_times(self) -> FetchTimes:
        """Durations of fetches in this pass, of all processes."""
        return self.made.times_with(FetchTimes() + self.home.times)

    def in_flight(self) -> int:
        """Batches that workers were asked for and that are not delivered yet."""
        workers = self.workers()
        return 0 if workers is None else int(workers._send_idx - workers._rcvd_idx)

    def totals(self) -> dict[str, Any]:
        """This pass's part of a phase; all additive."""
        fetched = self.fetched()
        elapsed = max(self._looked - self._began, 1e-9)
        step_s = self.step_s + self.unfinished_s()
        wall = self.wait_s + step_s
        wait_queued_s = self._queued_waiting_s()
        samples = self._samples(fetched)
        by_batches = self.counts_rows and self.batches
        return {
            "epochs": 1 if self.batches else 0,
            "samples": samples,
            "batches": self.batches,
            "steps": self.steps,
            "shared_steps": self.shared_steps,
            "wall_s": wall,
            "wait_s": self.wait_s,
            "step_s": step_s,
            "first_wait_s": min(self.first_wait_s, self.wait_s),
            "workers": wall * self._workers_s / elapsed,
            "fetch_samples": fetched[1] * samples / self.batches if by_batches else fetched[0],
            "fetch_wall_s": fetched[2],
            "fetch_cpu_s": fetched[3],
            "fetch_times": self.fetch_times(),
            "bytes_read": fetched[4],
            "main_cpu_s": self._main_cpu_end_s - self._main_cpu_s,
            "fetch_queued_s": fetched[6],
            "wait_queued_s": wait_queued_s,
            "step_queued_s": self._queued_total_s - wait_queued_s,
            "delivered_bytes": self.batches * self.told.mean_bytes(),
        }


class LoaderMeter:
    """One loader's numbers over all its passes, and how its workers were set."""

    def __init__(self, number: int, facts: dict[str, Any], run_dir: str) -> None:
        self.number = number
        self.owner: Callable[[], Any] = lambda: None  # the loader, while it lives
        self.facts = facts
        self.run_dir = run_dir
        self.rows_in_all: int | None = None  # samples of a full pass, where that is known
        self.startup_s = 0.0  # of its own passes
        self.starts = Starts(lasting=facts["persistent"])
        self.worker_private = 0
        self.memory_due = 0.0  # when the room for its workers is to be looked at again
        self.tuner: Any = None  # where the loader finds its own count of workers
        self.pass_batches: int | None = None  # of a full pass
        self.gated: int | None = None  # workers started for the directive
        self.gate_open: int | None = None
        self.most_workers: int | None = None  # as many as the gate can open
        self.left_alone: str | None = None
        self.fallback: str | None = None
        self.kept: str | None = None  # left alone for good: the trial said why
        self._trusted: weakref.ref[Any] | None = None
        self._passes: list[Pass] = []
        self._lasting: Pass | None = None  # the latest pass of persistent workers
        self._closed: dict[_Phase, dict[str, Any]] = {}
        self._aside_s = 0.0  # of startup_s: starts for passes without a step
        self._waiting: tuple[Pass, _Sums, float] | None = None  # the latest, and its start
        self.models: set[int] = set()  # that optimisers stepped with its batches

    def hand_over(self, current: Pass, other: LoaderMeter) -> None:
        """This pass is another training's: what is known of the loader goes with it."""
        for name in _OF_THE_LOADER:
            setattr(other, name, getattr(self, name))
        self._passes.remove(current)
        other._passes.append(current)
        current.meter = other
        self.startup_s -= self.starts.latest_s
        other.startup_s += self.starts.latest_s

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
        self.starts.add(seconds, workers)

    def trust(self, loader: Any) -> None:
        """This very loader's dataset went well in workers: no trial at home next time."""
        self._trusted = weakref.ref(loader)

    def trusts(self, loader: Any) -> bool:
        """True if `trust` was called for this loader."""
        return self._trusted is not None and self._trusted() is loader

    def begin(self, current: Pass) -> None:
        """A new pass; those whose iterator is gone, or is used again, have ended."""
        self._settle()
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
            current.made.end()
            self.starts.pass_s = current.wait_s + current.step_s
            self.worker_private = max(self.worker_private, current.made.private_bytes())
            self._close(current)
            self._lasting = current if self.facts["persistent"] else None
            if self._lasting is None:
                current.made.forget()

    def finish(self, current: Pass, late: int) -> None:
        """Add steps for which the pass's last batches waited at its end: loops read ahead."""
        seconds = current.unfinished_s(late) if current.ended_at else 0.0
        total = self._total_of(current) if seconds else None
        if total and total["wall_s"]:
            workers = seconds * total["workers"] / total["wall_s"]
            add(total, {"wall_s": seconds, "step_s": seconds, "workers": workers})
            current.ended_at = 0.0

    def forget_workers(self) -> None:
        """At Python's end: no totals file stays."""
        for current in [*self._passes, *([self._lasting] if self._lasting else [])]:
            current.made.forget()

    def _close(self, current: Pass) -> None:
        self._settle()
        self._waiting = current, current.sums(), self.starts.latest_s

    def _total_of(self, ended: Pass) -> dict[str, Any] | None:
        if self._waiting is not None and self._waiting[0] is ended:
            return self._waiting[1][-1][2]
        return self._closed.get(ended.phase) if ended.phase else None

    def _settle(self) -> None:
        """Add the latest pass: steps that its batches waited for may have come after its end."""
        self._aside_s += self._add_latest(self._closed)
        self._waiting = None

    def _add_latest(self, phases: dict[_Phase, dict[str, Any]]) -> float:
        """Add the latest pass; return the seconds of its start if it was no training."""
        if self._waiting is None:
            return 0.0
        current, sums, start_s = self._waiting
        sums = _with_late_steps(current, sums)
        self._add(phases, current, sums)
        return 0.0 if any(stepped for _, stepped, _ in sums) else start_s

    def _add(self, phases: dict[_Phase, dict[str, Any]], current: Pass, sums: _Sums) -> None:
        later = {stepped for name, _, stepped in self._closed if name == "first_epoch"}
        for lent, stepped, part in sums:
            current.phase = ("later" if stepped in later else "first_epoch"), lent, stepped
            add(phases.setdefault(current.phase, {}), part)

    def row(self) -> dict[str, Any]:
        """The loader's part of the summary, passes under way included."""
        phases = {key: dict(total) for key, total in self._closed.items()}
        aside_s = self._aside_s + self._add_latest(phases)
        for current in self._passes:
            self.worker_private = max(self.worker_private, current.made.private_bytes())
            self._add(phases, current, current.sums())
        trains = any(stepped for _, _, stepped in phases)
        return {
            "id": self.number,
            **{key: self.facts[key] for key in ("dataset", "style", "batch_size", "length")},
            "model": min(self.models, default=None),
            "user_num_workers": self.facts["user_num_workers"],
            "started_workers": self.facts["user_num_workers"] if self.gated is None else self.gated,
            "gate": self.gate_open,
            "most_workers": self.most_workers,
            "method": "own" if self.gated is None else "gated",
            "left_alone": self.left_alone,
            "fallback": self.fallback,
            "worker_rss_bytes": self.worker_private or None,
            "startup_s": self.startup_s - (aside_s if trains else 0.0),
            "tuned": self.tuner and self.tuner.row(self.facts["batch_size"] or 1),
            "phases": [
                phase_row(name, total) for (name, _, _), total in sorted(phases.items(), key=_place)
            ],
        }


def _place(phase: tuple[_Phase, Any]) -> tuple[bool, str, bool]:
    """Order of the summary's phases: those of training last, and lent workers before none."""
    name, lent, stepped = phase[0]
    return stepped, name, not lent


def _with_late_steps(current: Pass, sums: _Sums) -> _Sums:
    """All of it is training if steps came after the pass's end; the first one is its own."""
    counted = sum([part["steps"] for _, _, part in sums])
    if current.steps <= counted:
        return sums
    return [
        (lent, True, {**part, "steps": part["steps"] or int(not counted)}) for lent, _, part in sums
    ]
