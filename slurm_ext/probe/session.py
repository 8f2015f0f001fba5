"""One process's measuring: its loaders, the passes under way, the summary."""

from __future__ import annotations

import sys
import time
from typing import Any

from .begun_pass import begun_pass
from .counters.turns import READ_ELSEWHERE, Turns
from .directive import Directive
from .ends import at_end
from .faults import Faults
from .gates import Gates
from .lending.lent_worker import kill_all
from .opened_pass import open_pass
from .passes.loader_meter import LoaderMeter
from .passes.meters import Meters
from .passes.one_pass import NEVER, Pass
from .running_workers import RunningWorkers
from .streams import verdict
from .summary_writer import SummaryWriter
from .tuner.knob import Knob
from .workers import gated
from .workers.gate import Gate

_FOREIGN = "the loader is another library's"


class Session:
    """Lives from the first DataLoader or optimiser's step to the end of the process."""

    def __init__(self, dataloader: Any, directive: Directive, turns: Turns) -> None:
        self.turns = turns
        self.directive = directive
        self.faults = Faults()
        self.safely = self.faults.safely
        self.gates = Gates(dataloader, directive)
        self.left = self.gates.left
        self.workers = RunningWorkers(self.gates, directive.lent_path)
        self.grow = self.workers.grow
        self.meters = Meters(dataloader, directive.run_dir)
        self.meter = self.meters.of
        self.turns.on_steps = self._stepped
        self.knob = Knob(self)
        self.writer = SummaryWriter(directive, self._measured, self.faults)
        self.leave = at_end(self.finish)

    # -- one pass --------------------------------------------------------------------------

    def watch(self, loader: Any, iterator: Any, meter: LoaderMeter, gate: Gate | None) -> None:
        """Measures the pass that `iterator` is about to make, and gates it."""
        current = begun_pass(self, iterator, meter)
        if getattr(iterator, "_dlqueue_open", None) is not None:
            self.workers.follow(current, iterator)
            if iterator._dlqueue_open.gate.keeps_streams:
                verdict.settle(self, iterator, current)
        elif gate is not None and int(loader.num_workers) == 0:
            open_pass(self, loader, iterator, current, gate)
        if gate is not None and meter.tuner is not None:
            current.knob = gate
            meter.tuner.begin(current, self.knob)

    def tune(self, current: Pass, now: float) -> None:
        """After the batches that the pass's tuner waits for."""
        current.tune_at = NEVER  # and so it stays should the tuner fail
        if current.meter.tuner is not None and current.knob is not None:
            current.meter.tuner.tick(current, self.knob, now)

    def adopt(self, iterator: Any, made_at: float) -> None:
        """Measures the pass of an iterator of torch's that another library's loader began."""
        former = iterator.__dict__.get("_dlqueue")
        meter = former.meter if former else self.meters.of_iterator(iterator)
        if meter is not None:
            meter.left_alone = _FOREIGN
            meter.starts.begin(0.0)
            if iterator._num_workers:
                meter.started(time.perf_counter() - made_at, 0)
            begun_pass(self, iterator, meter).counts_rows = True

    def look(self, current: Pass, now: float) -> None:
        """Five times a second while a pass runs: mean workers, memory, the summary."""
        current.look(now)
        current.evaluates = current.evaluates or not sys.modules["torch"].is_grad_enabled()
        if current.undecided:
            verdict.tell(current)
        self._note_thread(current)
        self.workers.look(current, now)
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
        if current.trained_here():
            self.safely(current.tail.end)
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
