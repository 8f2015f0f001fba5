"""Workers of the passes that run: which they are, more of them, lent ones, and their memory."""

from __future__ import annotations

import time
import weakref
from typing import Any, Callable

from .counters import machine
from .gates import Gates
from .passes.one_pass import Pass
from .workers import growth, lent, room
from .workers.gate import Gate
from .workers.load import load_of

_MEMORY_TIMES, _MEMORY_EVERY_S = 100.0, 5.0  # looks at memory: 30 ms each in a large process


class RunningWorkers:
    """Follows the gated workers of one process; the node's file of loans is at `lent_path`."""

    def __init__(self, gates: Gates, lent_path: str) -> None:
        self._gates, self._lent_path = gates, lent_path

    def follow(self, current: Pass, workers: Any) -> None:
        """The pass has these workers from here on."""
        gate = workers._dlqueue_open.gate
        self._gates.iterators.add(workers)
        current.look(time.perf_counter())
        current.due = 0.0  # with the first batch: a worker's memory is known then
        current.meter.gated = gate.limit
        current.workers_now = gate.open
        current.gate = gate
        current.workers = weakref.ref(workers)
        if self._may_grow(current, gate):
            growth.remember(workers)

    def _may_grow(self, current: Pass, gate: Gate) -> bool:
        """True if more workers may be forked within the pass: a tuner that rests may wake."""
        missing = gate.keeps_streams and gate.planned > gate.limit
        return missing or current.meter.tuner is not None or self._gates.directive.borrows

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

    def look(self, current: Pass, now: float) -> None:
        """Five times a second: who works, who is lent, and what memory allows."""
        gate, meter, workers = current.gate, current.meter, current.workers()
        iterator = current.iterator() if workers is None else workers
        meter.load = meter.load.most(load_of(current.told, iterator))
        if gate is None:
            return
        known, meter.gate_open = meter.worker_private, gate.open()
        meter.worker_private = max(known, current.made.private_bytes())
        self._follow_loan(current)
        if now >= meter.memory_due or not known:
            self._bound(current, gate)
            meter.gate_open = gate.open()
            took_s = time.perf_counter() - now
            meter.memory_due = now + min(_MEMORY_TIMES * took_s, _MEMORY_EVERY_S)

    def _bound(self, current: Pass, gate: Gate) -> None:
        self._gates.bound(gate, current.meter, current.meter.facts["user_num_workers"])

    def _follow_loan(self, current: Pass) -> None:
        """Lent workers of a pass that runs, as the node's file says and memory allows."""
        workers = current.workers()
        if workers is None:
            return
        if workers._dlqueue_open.lent is None:
            workers._dlqueue_open.lent = lent.LentWorkers(self._lent_path)
        each, load = current.meter.worker_private, current.meter.load

        def fitting() -> int:
            private = (machine.private_bytes() or 0) + each * len(workers._workers)
            return room.lent(each, private, load)

        current.made.join(workers._dlqueue_open.lent.look(workers, fitting))
        workers._dlqueue_open.gate.lent = len(workers._dlqueue_open.lent.active)
        current.parts.turn(workers._dlqueue_open.with_lent(), current.totals)
