"""Counts of a pass at the beginning of a block of batches, to measure the block by."""

from __future__ import annotations

from typing import Any

from .autotune import Block


class Mark:
    """Counts of a pass at the beginning of a block."""

    def __init__(self, current: Any, before_s: float) -> None:
        self.batches, self.seconds_waited, self.step_s = (
            current.batches,
            current.wait_s,
            current.step_s,
        )
        self.starting_s = current.meter.starts.total_s - before_s
        self.lent = lent_of(current)

    def block(self, current: Any) -> Block:
        """The block that ends now."""
        started_s = current.meter.starts.total_s - self.starting_s
        wait_s = current.wait_s - self.seconds_waited + started_s
        seconds = wait_s + current.step_s - self.step_s
        return Block(current.batches - self.batches, seconds, wait_s)

    def disturbed(self, current: Any) -> bool:
        """True if lent workers are at work, or were: the rate is not that of the count alone."""
        return bool(self.lent or lent_of(current))


def lent_of(current: Any) -> int:
    """Lent workers that are at work now."""
    return getattr(current.knob, "lent", 0) or 0
