"""One pass over a loader: what was counted and timed in it."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any, Callable

from ..counters.batches import BatchCounts
from ..counters.fetching import HomeMeter, WorkersTotals
from ..lending.pass_parts import PassParts
from ..stalls.fetch_times import FetchTimes
from ..workers.gate import Gate
from .device_tail import DeviceTail
from .passed_over import PassedOver, Phase, Sums, without
from .queueing import Queueing

NEVER = 1 << 62  # batches

_LOOK_EVERY_S = 0.2
_CLOSELY = 3  # batches after each look around which the kernel is asked: some 40 us each time


class Pass(Queueing):
    """One pass over a loader, from `iter()` to its end. Times are seconds on the wall."""

    def __init__(self, iterator: Any, meter: Any) -> None:
        super().__init__()
        self.iterator = weakref.ref(iterator)
        self.meter = meter  # the LoaderMeter whose pass it is now
        self.home = HomeMeter()  # fetches in this process
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
        self.twin = False  # another pass over its loader counts for both
        self.stepped_at = 0.0  # when the latest was done
        self.ended_at = 0.0  # when there was no batch more
        self.phase: Phase | None = None  # that it was added to
        self.passed_over = PassedOver()
        self.tail = DeviceTail()
        self.late_s = 0.0  # of steps after its end that are counted by now
        self.evaluates = False  # no gradients, or a model's evaluation mode, or no step before it
        self.elsewhere = False  # another thread than the reading one made some
        self.counts_rows = False  # nobody but the batch itself tells its samples
        self.reads = True  # the batches themselves are looked at
        self.unmarked = 0  # batches from now on that are to be marked
        self.gathered_s = 0.0  # before it, for making its data, or for what else the loop computes
        self.aside_s = 0.0  # validations when it began
        self.left: tuple[float, float, int, int] | None = None  # counters/turns.py's
        self.first_wait_s = 0.0  # for the first batch: workers start, queues fill
        self.told = BatchCounts()
        self.last = 0.0  # when the latest batch was handed over
        self.due = 0.0
        self._workers_s = 0.0
        self.parts = PassParts()
        self._looked = time.perf_counter()
        self.began = self._looked
        self._main_cpu_s = time.process_time()
        self._main_cpu_end_s = self._main_cpu_s
        self.made = WorkersTotals(meter.run_dir)

    def look(self, now: float) -> None:
        """Note how many workers work, for their mean, and look closely at the next batches."""
        if self.batches == 1 and not self.first_wait_s:
            self.first_wait_s = self.wait_s
            if self.trained_here():
                self.tail.begin()
        working = self.workers_now() + (self.gate.lent if self.gate else 0)
        self._workers_s += working * (now - self._looked)
        self._looked = now
        self.due = now + _LOOK_EVERY_S
        self._main_cpu_end_s = time.process_time()
        self.queued()
        self.closely = _CLOSELY

    def read(self, batch: Any) -> None:
        """Count a batch's samples, and mark it, where it is to tell them."""
        if self.unmarked:
            self.unmarked -= 1
            self.meter.mark(batch)
        if self.counts_rows:
            self.told.count_rows(batch)
        self.reads = self.counts_rows or self.unmarked > 0

    def trained_here(self) -> bool:
        """True if the thread that asks now is the one that trains, as far as that is seen."""
        alone = threading.current_thread() is threading.main_thread()
        return not self.elsewhere and (alone or self.steps > 0)

    def trains(self) -> bool:
        """True unless it is known to be a validation, or the like."""
        return self.steps > 0 or not self.evaluates

    def apart(self, seconds: float, cpu_s: float) -> None:
        """Leave out a validation that lay within the step which is now at its end."""
        self.last += seconds
        self._main_cpu_s += cpu_s

    def worked_since(self, former: Pass) -> float:
        """Seconds for which the process computed since that one, or waited for a core to."""
        queued_s = self._queued_s - former._queued_s
        cpu_s = self._main_cpu_s - former._main_cpu_end_s
        return cpu_s + (queued_s if queued_s > 0 else 0.0)  # of one thread, where the kernel tells

    def note_first(self, steps: int) -> None:
        """So many steps are about to be credited, and none was before."""
        self.passed_over.note(self.totals(), steps)

    def sums(self) -> Sums:
        """Its sums, with lent workers or not, with steps or not."""
        totals = self.totals()
        if self.twin:
            return [(False, True, {**without(totals, totals), "lent_s": 0.0})]
        parts = self.parts.all(totals)
        alone = len(parts) == 1 and not self.elsewhere
        before = self.passed_over.part(totals) if alone else {}
        stepped = [(lent, self.trains(), without(part, before)) for lent, part in parts.items()]
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
        elapsed = max(self._looked - self.began, 1e-9)
        step_s = self.step_s + self.unfinished_s()
        wall = self.wait_s + step_s
        wait_queued_s = self.queued_waiting_s()
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
            "gathered_s": self.gathered_s if self.batches else 0.0,
            "first_wait_s": min(self.first_wait_s, self.wait_s),
            "workers": wall * self._workers_s / elapsed,
            "fetch_samples": fetched[1] * samples / self.batches if by_batches else fetched[0],
            "fetch_wall_s": fetched[2],
            "fetch_cpu_s": fetched[3],
            "fetch_times": self.fetch_times(),
            "bytes_read": fetched[4],
            "main_cpu_s": self._main_cpu_end_s - self._main_cpu_s,
            "home_cpu_s": self.home.process_cpu_s(),
            "fetch_queued_s": fetched[6],
            "wait_queued_s": wait_queued_s,
            "step_queued_s": self._queued_total_s - wait_queued_s,
            "delivered_bytes": self.batches * self.told.mean_bytes(),
        }
