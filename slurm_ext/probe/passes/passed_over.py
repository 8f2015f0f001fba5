"""Batches that a pass hands before its first step, and that no step uses.

A run that goes on in the middle of an epoch reads what was done before, and passes over it. What is
only added up to a step, or read ahead of one, is a part of the training.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ..stalls.fetch_times import FetchTimes

Totals = Dict[str, Any]
Phase = Tuple[str, bool, bool]  # its name, whether with lent workers, and whether with steps
Sums = List[Tuple[bool, bool, Totals]]  # with lent workers, with steps, and what it adds

FEWEST = 4  # batches; fewer are read ahead, or steps that GradScaler leaves out
_OF_STEPS = ("steps", "shared_steps", "epochs")


class PassedOver:
    """Totals of a pass when its first step was credited, with the batch of which it was made."""

    def __init__(self) -> None:
        self._then: Totals = {}
        self._steps = 0

    def note(self, totals: Totals, steps: int) -> None:
        """So many steps, the first ones, are about to be credited."""
        if totals["batches"] > FEWEST:
            self._then, self._steps = totals, steps

    def part(self, now: Totals) -> Totals:
        """Sums of the leading batches that no step used, epochs left out; empty: none are sure."""
        later = now["steps"] - self._steps
        if not self._then or later < 1:
            return {}
        first = self._then["batches"]
        each = max(1, (now["batches"] - first) // later)  # batches to a step
        left = first - each * self._steps
        return self._of(left) if left > max(each, FEWEST) else {}

    def _of(self, left: int) -> Totals:
        """So many of the batches; the last one's step was not yet in the totals."""
        then, first = self._then, self._then["batches"]
        kept = (key for key in then if key not in (*_OF_STEPS, "fetch_times"))
        part = {key: then[key] * left / first for key in kept}
        part.update(dict.fromkeys(_OF_STEPS, 0), lent_s=0.0, batches=left, fetch_times=FetchTimes())
        part["first_wait_s"], part["step_s"] = (
            then["first_wait_s"],
            then["step_s"] * left / max(1, first - 1),
        )
        part["wall_s"] = part["wait_s"] + part["step_s"]
        return part


def without(total: Totals, part: Totals) -> Totals:
    """Return the rest of a total; its histogram stays whole."""
    return {
        key: value if key == "fetch_times" else value - part.get(key, 0)
        for key, value in total.items()
    }
