"""Gates for the passes of one process: which loader gets one, and how many workers behind it."""

from __future__ import annotations

import time
import weakref
from typing import Any, cast

from . import rules
from .counters import machine
from .directive import Directive
from .inspection.description import length
from .passes.loader_meter import LoaderMeter
from .streams.watch import Watch
from .tuner.tuning import Tuner
from .workers import gated, room
from .workers.gate import ELSEWHERE, Gate

SHORT = "its passes are too short for workers"
_ASKED_AFTER = 20.0  # times as long as the answer took


class Gates:
    """Opens gates as the directive and memory allow; `dataloader` is torch's module."""

    def __init__(self, dataloader: Any, directive: Directive) -> None:
        self.dataloader, self.directive = dataloader, directive
        self.can_gate = rules.understood(dataloader)
        self.iterators: weakref.WeakSet[Any] = weakref.WeakSet()  # the gated ones
        self._private_bytes, self._private_due = 0, 0.0

    def gate(self, loader: Any, meter: LoaderMeter) -> Gate | None:
        """The gate for a pass that is about to begin; None: it is the user's own.

        A loader that nobody asks to move tells all the same what would leave it alone.
        """
        if not self.directive.gates:
            meter.left_alone = meter.kept or self._refusal(loader)
        if not self.directive.gates or meter.fallback:
            return None
        running: Any = getattr(loader, "_iterator", None)  # persistent workers, kept from last time
        if getattr(running, "_dlqueue_open", None) is not None:
            return cast("Gate", running._dlqueue_open.gate)
        own = int(loader.num_workers)
        if not own and not self.directive.tunes and meter.starts.loses():
            meter.kept = meter.kept or SHORT
        meter.left_alone = meter.kept or self._refusal(loader)
        if self.directive.tunes and not meter.left_alone:
            self._tune(meter, own, length(loader._index_sampler))
        gate = None if meter.left_alone else self._new_gate(loader, meter, own)
        if gate is None:
            meter.left_alone = meter.left_alone or ELSEWHERE
            meter.gate_open = meter.most_workers = None
        elif loader.num_workers:
            gate.own, gate.drawing = int(loader.num_workers), rules.drawing(loader)
            gate.draws_matter = rules.draws_matter(loader, self.directive)
            one_order = rules.in_one_order(loader) and not meter.trusts(loader)
            if gate.draws_matter or one_order:
                gate.keeps_streams, gate.planned, gate.limit = True, gate.limit, gate.own
        return gate

    def _refusal(self, loader: Any) -> str | None:
        if not self.can_gate:
            return "this torch's DataLoader is not one the probe knows"
        return rules.left_alone(loader, self.dataloader, self.directive)

    def _tune(self, meter: LoaderMeter, own: int, batches: int | None) -> None:
        """Give the loader a tuner: it begins where the submission says, else the user."""
        meter.pass_batches = batches
        if meter.tuner is None:
            wanted = self.directive.num_workers
            cores = machine.cores() / machine.ranks_here()
            meter.tuner = Tuner(own, own if wanted is None else wanted, cores)
            meter.tuner.start_each_s = meter.starts.each_s

    def guard(self, loader: Any, gate: Gate | None) -> Watch | None:
        """The look at the first fetches of a loader's new workers; None: none."""
        if gate is not None:
            return Watch(closely=True, draws=gate.draws_matter) if gate.keeps_streams else None
        draws = self.can_gate and rules.draws_matter(loader, self.directive)
        return Watch(closely=False) if draws else None

    def _new_gate(self, loader: Any, meter: LoaderMeter, own: int) -> Gate | None:
        """A gate with as many workers as are left and fit; None: not even the user's `own` are.

        The loader's former pass may still hold some: who begins anew gives it up at once (Lightning
        with a limit of batches). Without workers of its own a pass asks again before they start.
        """
        wanted = self.directive.num_workers if meter.tuner is None else meter.tuner.count
        first = own if wanted is None else wanted
        left = self._most(first) - (self._taken(besides=loader) if own else 0)
        if left < (max(own, 1) if wanted is None else 1):
            return None
        left = min(left, max(own, 1, int(min(left, room.startable()))))
        private = self._private()
        gate = Gate(self.directive.gate_path, left, min(first, left))
        gate.loader = weakref.ref(loader)
        least = max(own, 1) if meter.worker_private else max(own, gate.first, 1)
        carried = room.carried(meter.gate_open or 0, meter.load)
        fitting = min(room.fitting(left, meter.worker_private, private), carried)
        meter.most_workers = max(min(least, left), int(fitting))
        asked = max(0 if meter.tuner else own, gate.first, gate.wanted(), 1)
        ahead = meter.starts.worth() if self.directive.starts_ahead else 0
        gate.limit = min(meter.most_workers, max(asked, ahead))
        self.bound(gate, meter, own, private)
        return gate

    def _private(self) -> int:
        """This process's memory; asking takes a twentieth of the time, however short passes are."""
        now = time.perf_counter()
        if now >= self._private_due:
            self._private_bytes = machine.private_bytes() or 0
            self._private_due = now + _ASKED_AFTER * (time.perf_counter() - now)
        return self._private_bytes

    def left(self, first: int = 0) -> int:
        """Workers that another loader of this process may still start."""
        return self._most(first) - self._taken()

    def _most(self, first: int) -> int:
        tuned = room.MOST_TUNED if self.directive.tunes or self.directive.borrows else 0
        return max(first, self.directive.max_workers or tuned)

    def _taken(self, besides: Any = None) -> int:
        """Workers of the directive that live and have batches to make, `besides` this loader's."""
        for iterator in list(self.iterators):
            gated.end_if_over(iterator)
        others = [one for one in self.iterators if one._dlqueue_open.gate.loader() is not besides]
        return sum(map(gated.holds, others if besides is not None else self.iterators))

    def bound(self, gate: Gate, meter: LoaderMeter, own: int, private: int | None = None) -> None:
        """Open as many workers as fit; `private`, this process's memory, is costly to ask for."""
        if gate.limit <= own:
            gate.ceiling = gate.limit
            return
        if private is None:
            private = self._private()
        now = meter.gate_open or 0
        each = meter.worker_private
        gate.ceiling = room.ceiling(gate.limit, own, now, each, private, meter.load)
