"""Checks of a worker's batches: one that may not be made there is refused with an UnfitError."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Iterator

from ..program.program_code import names_of_a_fetch
from .loop_changes import Snapshot
from .random_state import random_state, same_state

KEEPS_STATE = "the dataset keeps state"
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
    """Refuses what a worker would change or lose.

    That is a seeded job's draws, what the dataset writes down, batches that cannot travel.
    """

    refuses = True
    finding = 0.0  # for the training process to read, among a worker's totals

    def __init__(self, seeded: bool) -> None:
        self.seeded = seeded
        self._kept: _Kept | None = None  # with the first fetch

    def before(self, fetcher: Any) -> Any:
        """The random generators' state, where it matters."""
        if self._kept is None:
            self._kept = _Kept(fetcher)
        return random_state() if self.seeded else None

    def after(self, state: Any, data: Any) -> None:
        """Raises UnfitError where this batch must be made in the training process."""
        if self.seeded and not same_state(state, random_state()):
            raise UnfitError(DREW)
        if self._kept is not None and self._kept.changed():
            raise UnfitError(KEEPS_STATE)
        if not _travels(data):
            _pickle(data)


class _Kept:
    """This worker's copy of what batches are made from: the training never sees it change."""

    def __init__(self, fetcher: Any) -> None:
        self._fetcher, self._first = fetcher, True
        self._snapshots = self._taken()

    def _taken(self) -> list[Snapshot]:
        try:
            of_collate = Snapshot(self._fetcher.collate_fn, models=False)
            return [Snapshot(self._fetcher.dataset), of_collate]
        except Exception:  # objects of another kind: nothing is refused
            return []

    def changed(self) -> bool:
        """True if the latest fetch wrote to it; once it may open something for its process."""
        first, self._first = self._first, False
        if not self._differs():
            return False
        if not (first and "getpid" in names_of_a_fetch(self._fetcher.dataset)):
            return True
        self._snapshots = self._taken()
        return False

    def _differs(self) -> bool:
        try:
            return any(one.changed() for one in self._snapshots)
        except Exception:  # arrays that are not the same ones
            return True


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
