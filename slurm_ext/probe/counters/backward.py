"""Backward passes, for programs that move their weights by hand."""

from __future__ import annotations

import functools
import sys
import time
from typing import Any, Callable


class Passes:
    """Backward passes of a program that moves its weights by hand."""

    def __init__(self) -> None:
        self.count, self._first, self._latest = 0, 0.0, 0.0

    def add(self, now: float) -> None:
        """One is over."""
        self.count += 1
        self._first, self._latest = self._first or now, now

    def aside(self, seconds: float) -> None:
        """Leave out a validation."""
        self._first += seconds

    def row(self) -> dict[str, float] | None:
        """As StepClock's."""
        return {"steps": self.count, "wall_s": self._latest - self._first} if self.count else None


def follow_passes(module: Any, passed: Callable[[float], None]) -> None:
    """Call `passed(now)` after each backward pass of any thread; one within another is its part.

    `module` is torch.autograd. Torch tells whether this thread works for a pass: its own threads
    begin passes within a pass, too. A torch before 2.0 does not, and each pass counts there.
    """
    original = module.backward
    within = getattr(sys.modules["torch"]._C, "_current_graph_task_id", lambda: -1)

    @functools.wraps(original)
    def backward(*args: Any, **named: Any) -> Any:
        result = original(*args, **named)
        try:
            if within() == -1:
                passed(time.perf_counter())
        except Exception:  # noqa: S110 - the pass is done all the same
            pass
        return result

    module.backward = backward
