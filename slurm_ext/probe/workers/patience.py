"""Patience with workers that deliver nothing: their death and their stalling are noticed soon."""

from __future__ import annotations

import time
import weakref
from typing import Any

_LOOK_EVERY_S = 0.5  # for dead workers; torch itself looks every 5 s


class StalledError(RuntimeError):
    """The workers deliver nothing though they should."""


class Patient:
    """Waits for the workers' next batch, noticing soon that they died or locked up."""

    def __init__(self, workers: Any, patience_s: float) -> None:
        self.wait: Any = weakref.WeakMethod(workers._try_get_data)
        self.patience_s = patience_s

    def __call__(self) -> Any:
        """The next batch. Raises StalledError, and what torch raises for a dead worker."""
        began = time.monotonic()
        while time.monotonic() - began < self.patience_s:
            done, data = self.wait()(timeout=_LOOK_EVERY_S)
            if done:
                return data
        raise StalledError(f"the workers delivered nothing for {self.patience_s:.0f} s")
