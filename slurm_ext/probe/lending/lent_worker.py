"""One lent worker beside torch's own; the training can go on whatever becomes of it.

torch's workers send their batches through one queue with one lock, and a tensor is received in a
conversation with the worker that made it. A lent worker runs only while nobody else wants its core:
stopped in the middle of either, it would hold up everybody. So it has a queue of its own, a thread
of the training process receives from it, and its batches join torch's when they are whole. Nothing
here waits for it: neither the end of a pass nor the beginning of the next one, nor Python's end.
"""

from __future__ import annotations

import collections
import contextlib
import mmap
import queue
import threading
import time
import weakref
from multiprocessing import connection
from typing import Any, Callable, ClassVar

Deliver = Callable[[Any], None]


class Arrivals:
    """Stands in for the queue that batches come from: torch's own, and what lent workers made."""

    def __init__(self, own: Any) -> None:
        self.own = own
        self._lent: collections.deque[Any] = collections.deque()
        self._bell, self._ring = connection.Pipe(duplex=False)  # rings once for each of `_lent`

    def put(self, item: Any) -> None:
        """Add a whole one, from any thread."""
        self._lent.append(item)
        self._ring.send_bytes(b"1")  # so few bytes are written at once, or not at all

    def get(self, timeout: float | None = None) -> Any:
        """The next one. Raises queue.Empty after `timeout` seconds."""
        ready = connection.wait([self._bell, self.own._reader], timeout)
        if self._bell in ready:
            self._bell.recv_bytes()
            return self._lent.popleft()
        if ready:
            return self.own.get()
        raise queue.Empty


def way_in(iterator: Any) -> Deliver:
    """The iterator's entrance for batches that none of torch's own workers brings."""
    own = iterator._worker_result_queue
    if iterator._data_queue is own:
        iterator._data_queue = Arrivals(own)
    if isinstance(iterator._data_queue, Arrivals):
        return iterator._data_queue.put
    own.cancel_join_thread()  # a queue that is full must not hold up Python's end
    put: Deliver = own.put  # a thread of torch's pins what comes from there
    return put


class Ended:
    """Stands in for torch's event that ends workers: one that is stopped holds no lock of it."""

    def __init__(self) -> None:
        self._flag = mmap.mmap(-1, 1)  # shared with the worker that is forked

    def set(self) -> None:
        """They are to end."""
        self._flag[0] = 1

    def is_set(self) -> bool:
        """True from then on."""
        return bool(self._flag[0])


class LentWorker:
    """Stands in for a worker's process and for its queue of indices, as torch uses the two.

    torch asks it for batches by number. `held` are those that it has not returned, with their
    indices; `owed` those that others make meanwhile, by pass.
    """

    living: ClassVar[weakref.WeakSet[LentWorker]] = weakref.WeakSet()

    def __init__(
        self, process: Any, indices: Any, batches: Any, deliver: Deliver, ended: Ended
    ) -> None:
        self.pid: int = process.pid
        self._ended = ended
        self.held: dict[int, Any] = {}
        self.owed: set[tuple[int, int]] = set()
        self.gone = False  # nothing comes from it any more
        self._process, self._indices, self._deliver = process, indices, deliver
        self._pass = 0
        self._heard_s = time.monotonic()
        self._lock = threading.Lock()
        batches._writer.close()  # so that its end is the end of the queue
        self.living.add(self)
        threading.Thread(target=self._receive, args=(batches,), daemon=True).start()

    @property
    def usable(self) -> bool:
        """True if it returned all that it was asked for before others were."""
        return not (self.gone or self.owed)

    def silent_s(self) -> float:
        """Seconds since it returned a batch, or was asked for the first of those that it holds."""
        return time.monotonic() - self._heard_s if self.held else 0.0

    def take(self) -> dict[int, Any]:
        """Give away the batches that it holds; what it returns of them later is not needed."""
        with self._lock:
            taken, self.held = self.held, {}
            self.owed.update((self._pass, number) for number in taken)
        return taken

    def _receive(self, batches: Any) -> None:
        """Deliver what comes; batches of an earlier pass are nobody's any more."""
        with contextlib.suppress(Exception):  # it ended, or took a tensor with it
            while True:
                (number_of_pass, number), data = batches.get()
                with self._lock:
                    self._heard_s = time.monotonic()
                    self.owed.discard((number_of_pass, number))
                    if number_of_pass == self._pass:
                        self.held.pop(number, None)
                        self._deliver((number, data))
        self.gone = True

    # -- as a queue of indices -------------------------------------------------------------------

    def put(self, task: Any) -> None:
        """Ask for a batch (number, index); None: it is to end; else a new pass begins.

        What torch's workers do for a new pass (an iterable dataset's state) is not needed here.
        """
        if isinstance(task, tuple):
            self._ask(*task)
        elif task is None:
            self._ended.set()
            self._indices.put(None)
        else:
            self.take()
            with self._lock:
                self._pass += 1
            self._deliver((task, None))

    def _ask(self, number: int, index: Any) -> None:
        with self._lock:
            if not self.held:
                self._heard_s = time.monotonic()
            self.held[number] = (
                list(index) if type(index) is list else index
            )  # its owner's to reuse
        self._indices.put(((self._pass, number), index))

    def cancel_join_thread(self) -> None:
        """As of the queue."""
        self._indices.cancel_join_thread()

    def close(self) -> None:
        """As of the queue."""
        self._indices.close()

    # -- as a process ----------------------------------------------------------------------------

    def is_alive(self) -> bool:
        """Always True: its death is no reason to end the training, as that of torch's own is."""
        return True

    def join(self, timeout: float | None = None) -> None:
        """Returns at once: what it still does nobody waits for."""

    def terminate(self) -> None:
        """End it: torch has asked it to, and one that does not answer is killed."""
        if not self.usable:
            self.kill()

    def kill(self) -> None:
        """Kill it: it shares no lock with anybody."""
        self._process.kill()


def kill_all() -> None:
    """At Python's end, which would wait for each that lives."""
    for worker in list(LentWorker.living):
        with contextlib.suppress(Exception):
            worker.kill()
