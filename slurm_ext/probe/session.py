"""One process's measuring: its loaders, the passes under way, the summary."""

from __future__ import annotations

import sys
import time
import weakref
from typing import Any, Callable

from . import rules
from .counters import machine
from .counters.batches import BatchCounts
from .counters.turns import READ_ELSEWHERE, Turns
from .directive import Directive
from .ends import at_end
from .faults import Faults
from .gates import Gates
from .lazy_workers import LazyWorkers
from .lending.lent_worker import kill_all
from .passes.gathering import Evaluations
from .passes.loader_meter import LoaderMeter
from .passes.meters import Meters
from .passes.one_pass import NEVER, Pass
from .streams import verdict
from .streams.watch import Watch
from .summary_writer import SummaryWriter
from .tuner.knob import Knob
from .workers import gated, growth, lent, room
from .workers.gate import Gate

_FOREIGN = "the loader is another library's"
_MEMORY_TIMES, _MEMORY_EVERY_S = 100.0, 5.0  # looks at memory: 30 ms each in a large process


class Session:
    """Lives from the first DataLoader or optimiser's step to the end of the process."""

    def __init__(self, dataloader: Any, directive: Directive, turns: Turns) -> None:
        self.turns = turns
        self.directive = directive
        self.faults = Faults()
        self.safely = self.faults.safely
        self.gates = Gates(dataloader, directive)
        self.left = self.gates.left
        self.meters = Meters(dataloader, directive.run_dir)
        self.meter = self.meters.of
        self.turns.on_steps = self._stepped
        self.knob = Knob(self)
        self.writer = SummaryWriter(directive, self._measured, self.faults)
        self.leave = at_end(self.finish)

    # -- one pass --------------------------------------------------------------------------

    def watch(self, loader: Any, iterator: Any, meter: LoaderMeter, gate: Gate | None) -> None:
        """Measures the pass that `iterator` is about to make, and gates it."""
        current = self._begin(iterator, meter)
        if getattr(iterator, "_dlqueue_open", None) is not None:
            self._follow(current, iterator)
            if iterator._dlqueue_open.gate.keeps_streams:
                verdict.settle(self, iterator, current)
        elif gate is not None and int(loader.num_workers) == 0:
            self._open(loader, iterator, current, gate)
        if gate is not None and meter.tuner is not None:
            current.knob = gate
            meter.tuner.begin(current, self.knob)

    def tune(self, current: Pass, now: float) -> None:
        """After the batches that the pass's tuner waits for."""
        current.tune_at = NEVER  # and so it stays should the tuner fail
        if current.meter.tuner is not None and current.knob is not None:
            current.meter.tuner.tick(current, self.knob, now)

    def adopt(self, iterator: Any) -> None:
        """Measures the pass of an iterator of torch's that another library's loader made."""
        meter = self.meters.of_iterator(iterator)
        if meter is not None:
            meter.left_alone = _FOREIGN
            self._begin(iterator, meter).counts_rows = True

    def _begin(self, iterator: Any, meter: LoaderMeter) -> Pass:
        self.writer.note_group()
        former = iterator.__dict__.get("_dlqueue")  # its last pass, of persistent workers
        current = Pass(iterator, meter)
        size = meter.facts["batch_size"] if iterator._auto_collation else None
        current.told = BatchCounts(size, whole=not iterator._auto_collation)
        # A worker's last batch of an iterable dataset may be short; others nobody else tells.
        current.counts_rows = not iterator._auto_collation or meter.facts["style"] == "iterable"
        meter.begin(current)
        self._gather(current, iterator)
        current.unmarked = meter.unmarked() if self.writer.grouped else 0
        current.made.join(gated.pids(iterator), former and former.made)
        iterator.__dict__["_dlqueue"] = current
        fetcher = getattr(iterator, "_dataset_fetcher", None)
        if fetcher is not None:
            fetcher.__dict__["_dlqueue"] = current.home
        own = int(iterator._num_workers)
        current.workers_now = lambda: own
        watched = isinstance(iterator.__dict__.get("_dlqueue_guard"), Watch)
        current.undecided = watched and not self.directive.gates
        return current

    def _gather(self, current: Pass, iterator: Any) -> None:
        """Count the time before the pass that is the training's."""
        steps, meter = self.turns.steps, current.meter
        asked = None if steps.idle() else self.turns.latest_here()
        now = Evaluations(steps.aside_s, steps.evaluated_at)
        current.gathered_s = meter.gathering.before(
            current, iterator._dataset, meter.starts.latest_s, asked, now
        )

    def _open(self, loader: Any, iterator: Any, current: Pass, gate: Gate) -> None:
        meter = current.meter  # until the first step: the pass may be another training's
        seeded = rules.pinned_seed(loader) and not self.directive.seeds_may_change
        lazy = LazyWorkers(iterator, loader, gate, seeded, not meter.trusts(loader))

        self.gates.lazy_workers.add(lazy)

        def started(workers: Any, seconds: float) -> None:
            meter = current.meter
            meter.started(seconds, gate.limit)
            current.wait_s -= seconds
            if (owner := meter.owner()) is not None:
                meter.trust(owner)
            current.made.join(gated.pids(workers))
            self._follow(current, workers)

        def left(reason: str) -> None:
            current.knob, current.tune_at = None, NEVER
            meter = current.meter
            meter.left_alone = meter.kept = reason
            meter.gate_open = meter.most_workers = None

        ending = weakref.WeakMethod(lazy.go_home)  # the pass must not keep the workers

        def home() -> None:
            current.look(time.perf_counter())
            end = ending()
            if end is not None:
                end()
            current.workers_now, current.workers, current.gate = lambda: 0, lambda: None, None
            current.meter.gate_open = 0

        def fell(reason: str) -> None:
            current.look(time.perf_counter())
            current.workers_now, current.knob, current.tune_at = lambda: 0, None, NEVER
            current.gate = None  # its workers are gone
            meter = current.meter
            meter.fallback, meter.gate_open, meter.most_workers = reason, 0, None

        lazy.on_start, lazy.on_leave, lazy.on_fall = started, left, fell
        current.go_home = home
        lazy.left = self.left
        lazy.trains_here = lambda: current.trained_here() and self.turns.of_one_thread()
        if not lazy.claimed:
            meter.gate_open = 0

    def _follow(self, current: Pass, workers: Any) -> None:
        gate = workers._dlqueue_open.gate
        self.gates.iterators.add(workers)
        current.look(time.perf_counter())
        current.due = 0.0  # with the first batch: a worker's memory is known then
        current.meter.gated = gate.limit
        current.workers_now = gate.open
        current.gate = gate
        current.workers = weakref.ref(workers)
        if current.meter.tuner is not None and not current.meter.tuner.settled:
            growth.remember(workers)

    def grow(self, current: Pass, count: int, begin: Callable[[], None] | None = None) -> int:
        """Start up to `count` more workers for a pass that runs; return how many started.

        The gate can open for them at once. 0 where workers cannot start within a pass.
        """
        workers, gate = current.workers(), current.gate
        if workers is None or gate is None:
            return 0
        began = time.perf_counter()
        pids = growth.add_workers(workers, count, begin)
        if pids:
            current.made.join(pids)
            lent_count = workers._dlqueue_open.lent_count()
            gate.limit = current.meter.gated = len(workers._workers) - lent_count
            self._bound(current, gate)
            current.meter.started(time.perf_counter() - began, len(pids))
        return len(pids)

    def _bound(self, current: Pass, gate: Gate) -> None:
        self.gates.bound(gate, current.meter, current.meter.facts["user_num_workers"])

    def _follow_loan(self, current: Pass) -> None:
        """Lent workers of a pass that runs, as the node's file says and memory allows."""
        workers = current.workers()
        if workers is None:
            return
        if workers._dlqueue_open.lent is None:
            workers._dlqueue_open.lent = lent.LentWorkers(self.directive.lent_path)
        each, batch = current.meter.worker_private, current.told.mean_bytes()

        def fitting() -> int:
            private = (machine.private_bytes() or 0) + each * len(workers._workers)
            return room.lent(each, private, batch, workers._prefetch_factor)

        current.made.join(workers._dlqueue_open.lent.look(workers, fitting))
        workers._dlqueue_open.gate.lent = len(workers._dlqueue_open.lent.active)
        current.parts.turn(workers._dlqueue_open.with_lent(), current.totals)

    def look(self, current: Pass, now: float) -> None:
        """Five times a second while a pass runs: mean workers, memory, the summary."""
        current.look(now)
        current.evaluates = current.evaluates or not sys.modules["torch"].is_grad_enabled()
        if current.undecided:
            verdict.tell(current)
        self._note_thread(current)
        if current.gate is not None:
            meter = current.meter
            known, meter.gate_open = meter.worker_private, current.gate.open()
            meter.worker_private = max(known, current.made.private_bytes())
            self._follow_loan(current)
            if now >= meter.memory_due or not known:
                self._bound(current, current.gate)
                took_s = time.perf_counter() - now
                meter.memory_due = now + min(_MEMORY_TIMES * took_s, _MEMORY_EVERY_S)
        self.writer.write_if_due(now)

    def _note_thread(self, current: Pass) -> None:
        if current.elsewhere:
            current.meter.left_alone = current.meter.kept = READ_ELSEWHERE

    def _stepped(self, current: Pass, models: set[int]) -> None:
        self.safely(self.meters.stepped, current, models)

    def ended(self, current: Pass) -> None:
        """Add a pass that came to its end; write the summary if enough time is between."""
        now = time.perf_counter()
        current.look(now)
        if current.undecided:  # the whole pass was shorter than the time between two looks
            self.safely(verdict.tell, current)
        current.over = True
        current.evaluates = current.evaluates or self.turns.steps.idle()
        self._note_thread(current)
        if current.meter.tuner is not None and current.knob is not None:
            self.safely(current.meter.tuner.end, current, self.knob)
        current.meter.end(current)
        self.writer.pass_ended(now)
        current.ended_at = time.perf_counter()

    # -- the summary -----------------------------------------------------------------------

    def _measured(self) -> dict[str, Any]:
        self.turns.credit()
        rows = [meter.row() for meter in self.meters.all]
        clock = self.turns.steps
        fed = sum([phase["batches"] for row in rows for phase in row["phases"] if phase["steps"]])
        steps = clock.row(fed) or (None if rows else clock.passes.row())
        return {
            "data_ranks": self._data_ranks(),
            "optimizer": steps,
            "communication": clock.sync.row(),
            "loaders": rows,
        }

    def _data_ranks(self) -> int | None:
        shares = [meter.share[0] for meter in self.meters.all if meter.share is not None]
        most = max([self.turns.steps.data_ranks.most, *shares])
        return most if self.writer.grouped else None

    def finish(self) -> None:
        """At Python's end."""
        if self.writer.is_this_process():
            self.safely(self.writer.write, True)
            for meter in self.meters.all:
                meter.forget_workers()
            for iterator in list(self.gates.iterators):
                gated.end_deaf(iterator)
            kill_all()
