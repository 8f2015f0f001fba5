"""Steps of the job's optimisers, by torch's own hook: a clock that needs no DataLoader."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable

from .stalls.gradient_sync import SyncTimes

_MOST_OPTIMISERS = 16


class StepClock:
    """Steps of each optimiser, and when its first and its latest one were done."""

    def __init__(self) -> None:
        self.total = 0
        self.due = 0.0  # when the summary is to be looked at; the clock is time.perf_counter
        self.sync = SyncTimes()
        self._of: dict[int, list[float]] = {}  # by id: steps, first, latest

    def count(self, optimiser: Any, now: float) -> None:
        """One step was done."""
        self.total += 1
        entry = self._of.get(id(optimiser))
        if entry is not None:
            entry[0] += 1
            entry[2] = now
        elif len(self._of) < _MOST_OPTIMISERS:
            self._of[id(optimiser)] = [1, now, now]
        if self.total >= self.sync.due:
            self.sync.look(self.total, now)

    def row(self) -> dict[str, float] | None:
        """Steps of the busiest optimiser, and the time from its first to its latest; None: none."""
        if not self._of:
            return None
        steps, first, latest = max(self._of.values())
        return {"steps": int(steps), "wall_s": latest - first}


def hook(module: Any, count: Callable[[Any, float], None]) -> None:
    """Call `count(optimiser, now)` after each step of every optimiser from now on.

    `module` is torch.optim.optimizer. What torch.compile looks at stays as if nobody listened, and
    is not counted; a torch before 2.1 cannot tell, and nothing is counted there.
    """
    torch = sys.modules["torch"]
    if tuple(map(int, str(torch.__version__).split(".")[:2])) < (2, 1):
        return
    clock = time.perf_counter

    def after_step(optimiser: Any, *_: Any) -> None:
        if torch.compiler.is_compiling():
            return
        try:  # noqa: SIM105 - contextlib.suppress takes longer than what it protects
            count(optimiser, clock())
        except Exception:  # noqa: S110 - the job's own step is done
            pass

    module.register_optimizer_step_post_hook(after_step)
