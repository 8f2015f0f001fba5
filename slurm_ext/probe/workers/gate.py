"""Number of the started workers that may work: read from a file, at bounded cost."""

from __future__ import annotations

import collections
import os
import time
from typing import TYPE_CHECKING, Any, Callable

from ..inspection.samplers import Drawing

if TYPE_CHECKING:
    from .lent import LentWorkers

LOOK_EVERY_S = 0.2
ELSEWHERE = "the workers are with another loader"


class Gate:
    """The open count, between 1 and `limit`; `ceiling` is a second bound (memory).

    `first` are open until the file says otherwise, and again once the file is gone. 0: the
    loader works in the training process until the file asks for workers.
    """

    def __init__(self, path: str, limit: int, first: int | None = None) -> None:
        self.path = path
        self.limit = limit
        self.ceiling = limit
        self.lent = 0  # lent workers at work beside these
        self.first = limit if first is None else first
        self.asked = self.first
        self.own = 0  # workers as written
        self.drawing: Drawing | None = None  # how far they may be run ahead of
        self.keeps_streams = False  # each of them has a stream of its own (streams/)
        self.draws_matter = False  # that is one of random numbers
        self.planned = limit  # once that is seen not to matter
        self.loader: Callable[[], Any] = lambda: None  # whose pass it is, while that lives
        self._seen: tuple[int, int] | None = None
        self._next_look = 0.0

    def open(self) -> int:
        """The number of workers that may be given work now."""
        return max(1, min(self.wanted(), self.limit, self.ceiling))

    def wanted(self) -> int:
        """The number of workers that is asked for, also if so many cannot be had."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_EVERY_S
            self._look()
        return self.asked

    def ask(self, count: int) -> None:
        """Open so many, and again whenever the file is gone; while there is one, it decides."""
        self.first = count
        if not self.ruled:
            self.asked = count

    @property
    def ruled(self) -> bool:
        """True while a file says how many."""
        return self._seen is not None

    def _look(self) -> None:
        try:
            stat = os.stat(self.path)
            if (stat.st_mtime_ns, stat.st_ino) != self._seen:
                self._seen = (stat.st_mtime_ns, stat.st_ino)
                self.asked = _number(self.path) or self.asked
        except FileNotFoundError:
            if self._seen is not None:
                self._seen, self.asked = None, self.first
        except OSError:
            return


def _number(path: str) -> int | None:
    """The file's count; None for anything else in it."""
    with open(path, "rb") as file:
        text = file.read(16).strip()
    return int(text) if text.isdigit() and len(text) <= 4 else None


class OpenWorkers:
    """Stands in for torch's cycle of worker queues: yields only the first `gate.open()` ones.

    With lent workers (lent.py) it yields the one that would finish first: a lent one may be slow,
    batches are delivered in order, and in turns all would be as slow as that one.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.lent: LentWorkers | None = None
        self.tasks: dict[int, Any] = {}  # torch's: batch -> worker, and the data once it is there
        self._next = 0

    def count(self) -> int:
        """The number of workers that may be given work now, lent ones included."""
        return self.gate.open() + (len(self.lent.active) if self.lent else 0)

    def window(self, prefetch: int) -> int:
        """Batches under way: more with lent workers, so that others go on beside a slow one."""
        return prefetch * (self.count() + (len(self.lent.active) if self.lent else 0))

    def lent_count(self) -> int:
        """The number of lent workers that have started."""
        return len(self.lent.ids) if self.lent else 0

    def with_lent(self) -> bool:
        """True if lent workers may be given work, or a batch of theirs is not delivered yet."""
        lent = self.lent
        return lent is not None and bool(
            lent.active or any(task[0] in lent.ids for task in list(self.tasks.values()))
        )

    def __iter__(self) -> OpenWorkers:
        return self

    def __next__(self) -> int:
        if self.lent is not None and self.lent.ids:
            return self._first_to_finish(self.lent)
        worker = self._next if self._next < self.gate.open() else 0
        self._next = worker + 1
        return worker

    def _first_to_finish(self, lent: LentWorkers) -> int:
        """The worker that would finish one more batch first; of several the next after the last."""
        busy, last = self._busy(), self._next - 1
        worker = min(
            [*_first(self.gate.open(), lent.ids), *lent.active],
            key=lambda each: ((busy[each] + 1) * lent.slowness(each), each <= last, each),
        )
        self._next = worker + 1
        return worker

    def least_busy(self, lent: list[int]) -> int:
        """The worker at work that has fewest batches to make, and is none of `lent`."""
        busy = self._busy()
        return min(_first(self.gate.open(), lent), key=lambda each: (busy[each], each))

    def receive(self, iterator: Any, wait: Callable[[float], Any], timeout_s: float) -> Any:
        """Wait as torch does for a batch; no lent worker holds that up (lent.py)."""
        if self.lent is None or not self.lent.ids:
            return wait(timeout_s)
        return self.lent.receive(iterator, wait, timeout_s)

    def _busy(self) -> collections.Counter[int]:
        """Batches that each worker has to make."""
        return collections.Counter(task[0] for task in list(self.tasks.values()) if len(task) == 1)


def _first(count: int, without: list[int]) -> list[int]:
    """The first `count` workers that are none of `without`."""
    workers = (worker for worker in range(count + len(without)) if worker not in without)
    return [worker for worker, _ in zip(workers, range(count))]
