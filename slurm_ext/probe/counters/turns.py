"""Turns of a process's passes: a validation between two batches of the training is no step of it.

A loader that lives through all epochs (a sampler that repeats itself) hands the first batch of the
next epoch after a whole validation. Loaders that take turns batch by batch train together: there
the time between two batches of one is its step, the other's batch included.
"""

from __future__ import annotations

import time
from typing import Any, Callable

from .steps import StepClock

_MOST_BESIDE = 8


class Turns:
    """Which pass handed the latest batch, and what happened since another one did."""

    def __init__(self, steps: StepClock) -> None:
        self.steps = steps
        self._latest: Any = None
        self._again = False  # the latest pass was asked twice in a row
        self._stretches = 0  # passes that were, so far
        self._credited = 0  # steps
        self._beside: list[Any] = []  # passes that handed a batch for the same step as the latest
        # Called before a pass is credited with steps of these models.
        self.on_steps: Callable[[Any, set[int]], Any] | None = None

    def to(self, current: Any, now: float) -> None:
        """`current` is asked for a batch: where a validation lay between, its step ended before."""
        if current is self._latest:
            self.credit()
            if not self._again:
                self._again = True
                self._stretches += 1
            return
        self.leave(now)
        self._latest, self._again = current, False
        if current in self._beside or len(self._beside) > _MOST_BESIDE:
            self._beside.clear()
        left, current.left = current.left, None
        if left is not None and current.last:
            left_s, cpu_s, stretches, steps = left
            if self._stretches > stretches and self.steps.total == steps:
                current.apart(now - left_s, time.process_time() - cpu_s)

    def leave(self, now: float) -> None:
        """Another loader is asked from here on."""
        latest = self._latest
        if not self.credit() and latest is not None and not self._again:
            self._beside.append(latest)
        if latest is not None and latest.last and latest.left is None:
            latest.left = now, time.process_time(), self._stretches, self.steps.total

    def credit(self) -> bool:
        """Steps are those of the pass that handed the latest batch, and of those zipped with it."""
        lately = self.steps.total - self._credited
        if not lately:
            return False
        models, self.steps.models = self.steps.models, set()
        for one in (self._latest, *self._beside):
            if one is not None:
                if self.on_steps is not None:
                    self.on_steps(one, models)
                one.steps += lately
        self._beside.clear()
        self._credited += lately
        return True
