"""A tuner's hand on its loader, within one process: its turn, the room, and the change."""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any

from ..counters import machine
from ..workers import room

if TYPE_CHECKING:
    from ..passes.one_pass import Pass

_IDLE_S = 5.0  # a search that saw no batch for so long makes way for another loader's


class Knob:
    """The tuners' hand on the passes of one process; one search at a time."""

    def __init__(self, session: Any) -> None:
        self._session: Any = weakref.proxy(session)
        self._searching: Any = None
        self._searched_at = 0.0

    def ruled(self, current: Pass) -> bool:
        """True while the gate file says how many may work."""
        return current.knob is None or current.knob.ruled

    def turn(self, tuner: Any) -> bool:
        """True if no other loader's search would move what this one measures."""
        now = time.perf_counter()
        holder = self._searching
        if holder not in (None, tuner) and now - self._searched_at < _IDLE_S:
            return False
        self._searching, self._searched_at = (None if tuner.settled else tuner), now
        return True

    def release(self, tuner: Any) -> None:
        """Another loader may search."""
        if self._searching is tuner:
            self._searching = None

    def room(self, current: Pass) -> int:
        """Workers that this pass may have in all: by count, memory and room for their batches."""
        workers = current.workers()
        have = 0
        if workers is not None:
            have = len(workers._workers) - workers._dlqueue_open.lent_count()
        meter = current.meter
        fitting = room.growing(
            have,
            meter.facts["user_num_workers"],
            meter.worker_private,
            machine.private_bytes() or 0,
            meter.load,
        )
        return int(min(room.MOST_TUNED, have + self._session.left(0), fitting))

    def ask(self, current: Pass, count: int) -> None:
        """Open the gate for so many; start those that are missing, or go home for 0."""
        gate = current.knob
        if gate is None:
            return
        gate.ask(count)
        workers = current.workers()
        if current.over:
            return
        if workers is None:
            first = gate.wanted() if gate.ruled else count
            gate.limit = gate.ceiling = max(1, min(first, current.meter.most_workers or 1))
        elif count == 0:
            current.go_home()
        elif count > gate.limit:
            self._session.grow(current, count - gate.limit)

    def follow(self, current: Pass) -> None:
        """Start what the gate file asks for beyond those that work, as far as there is room."""
        gate = current.knob
        if gate is not None and not current.over and current.workers() is not None:
            missing = min(gate.wanted(), self.room(current)) - gate.limit
            if missing > 0:
                self._session.grow(current, missing)
