"""Checks of a worker's batches: one that may not be made there is refused with an UnfitError."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Iterator

from .random_state import random_state, same_state

DREW = "fetching draws random numbers in a job with pinned seeds"
_PLAIN = (int, float, bool, str, bytes, type(None))

# Set while workers are started that are checked: forked children find it.
guard: Guard | None = None


@contextlib.contextmanager
def guarded(by: Guard | None) -> Iterator[Guard | None]:
    """Meanwhile workers that start are checked."""
    global guard
    guard = by
    try:
        yield by
    finally:
        guard = None


class UnfitError(RuntimeError):
    """Raised in a worker: this dataset's batches cannot be made there without a difference."""


class Guard:
    """Refuses what a worker would change: a seeded job's draws, batches that cannot travel."""

    refuses = True
    finding = 0.0  # for the training process to read, among a worker's totals

    def __init__(self, seeded: bool) -> None:
        self.seeded = seeded

    def before(self, fetcher: Any) -> Any:
        """The random generators' state, where it matters."""
        del fetcher
        return random_state() if self.seeded else None

    def after(self, state: Any, data: Any) -> None:
        """Raises UnfitError where this batch must be made in the training process."""
        if self.seeded and not same_state(state, random_state()):
            raise UnfitError(DREW)
        if not _travels(data):
            _pickle(data)


def _travels(data: Any) -> bool:
    """True if a batch is made only of objects that surely reach another process."""
    kind = type(data)
    if kind in _PLAIN:
        return True
    if kind in (list, tuple):
        return all(map(_travels, data))
    if kind is dict:
        return all(map(_travels, data)) and all(map(_travels, data.values()))
    if kind is sys.modules["torch"].Tensor:
        return bool(data.device.type == "cpu" and not data.requires_grad and not data.is_sparse)
    return False


def _pickle(data: Any) -> None:
    """Raise UnfitError if a batch cannot be pickled; in the queue's thread that hangs the job."""
    from multiprocessing.reduction import ForkingPickler

    try:
        ForkingPickler.dumps(data)
    except Exception as error:
        raise UnfitError(f"a batch cannot be sent from a worker: {error}") from None
