"""Time in which a pass's thread waited for a core: read closely around few batches."""

from __future__ import annotations

from ..counters import machine


class Queueing:
    """Seconds of a pass: waiting for batches, in steps, and in the kernel's queue in either."""

    def __init__(self) -> None:
        self.wait_s = 0.0
        self.step_s = 0.0
        self.closely = 0  # batches from now on around which the time in the queue is read
        self.wait_queued_s = 0.0  # waiting for a core in those batches
        self.step_queued_s = 0.0
        self._queued_total_s = 0.0  # waiting for a core in all; NaN where the kernel is silent
        self._queued_s = machine.queued_s()

    def queued(self) -> float:
        """Seconds that this thread waited for a core since it was last asked."""
        before, self._queued_s = self._queued_s, machine.queued_s()
        lately = self._queued_s - before
        lately = 0.0 if lately < 0 else lately  # below zero: the loop went over to another thread
        self._queued_total_s += lately
        return lately

    def queued_waiting_s(self) -> float:
        """The part of the time in the queue that fell into waits: all of it, split as measured."""
        close_s = self.wait_queued_s + self.step_queued_s
        wait, both = (
            (self.wait_queued_s, close_s) if close_s else (self.wait_s, self.wait_s + self.step_s)
        )
        return min(self._queued_total_s * wait / both, self.wait_s) if both else 0.0
