"""Fetches of samples, in the training process and in workers."""

from __future__ import annotations

import functools
from typing import Any, Callable

from .counters import fetching
from .directive import Directive
from .inspection import guarding
from .process import ProbeState
from .streams.watch import AnyWorkers


def measured_fetch(original: Callable[..., Any], worker: Any) -> Callable[..., Any]:
    """Return a fetcher's `fetch` that counts along; `worker` is torch's module of workers."""

    @functools.wraps(original)
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        meter = self.__dict__.get("_dlqueue") or _worker_meter(worker)
        if meter is None:
            return original(self, possibly_batched_index)
        if possibly_batched_index.__class__ is AnyWorkers:
            return possibly_batched_index.made(lambda index: meter.fetch(original, self, index))
        if meter.skip:
            meter.skip -= 1
            return original(self, possibly_batched_index)
        return meter.fetch(original, self, possibly_batched_index)

    return fetch


def _worker_meter(worker: Any) -> Any:
    """The totals of the DataLoader worker that this process is; None: nobody reads any."""
    if worker._worker_info is None or not ProbeState.following.by_a_meter:
        return None
    if ProbeState.worker is None:
        directive = ProbeState.directive or Directive()
        urgent = directive.gates  # the gate waits for it
        ProbeState.worker = fetching.WorkerMeter(
            directive.run_dir, guarding.guard, memory_after=1 if urgent else 4
        )
    return ProbeState.worker
