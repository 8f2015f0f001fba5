"""torch's multi-process iterator with a gate: work goes only to the first workers of the cycle."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Iterator

from .as_written import AsWritten
from .drawn_ahead import DrawnAhead, too_early
from .feed import Feed
from .gate import Gate, OpenWorkers
from .kept_heap import KeptHeap
from .quiet_forks import quiet_forks
from .signals import leave_to_the_training

_CHECK_S = 5.0  # torch's MP_STATUS_CHECK_INTERVAL: then it looks for dead workers


def gated_kind(base: Any) -> Any:
    """A subclass of torch's `_MultiProcessingDataLoaderIter` that bears its name."""

    class Gated(base):  # type: ignore[misc]
        __doc__ = base.__doc__
        _prefetch_factor: int
        _dlqueue_drawn = False  # the sampler gave no more

        def __init__(self, loader: Any, gate: Gate) -> None:
            self._dlqueue_open = OpenWorkers(gate)
            self._dlqueue_ahead = DrawnAhead()
            self._dlqueue_context = loader.multiprocessing_context or _torchs_own()
            _own_folder()
            with quiet_forks(), _made_whole(self):
                super().__init__(_with_kept_heap(loader, self._dlqueue_context, gate.own))

        def _try_put_index(self) -> None:
            """Keeps so many batches under way as its turn says, no more."""
            self._dlqueue_open.tasks = self._task_info
            prefetch = self._prefetch_factor
            try:
                while self._dlqueue_may_send(prefetch):
                    sent = self._send_idx
                    super()._try_put_index()
                    self._dlqueue_drawn = self._send_idx == sent
                    if self._dlqueue_drawn:
                        return
            finally:
                self._prefetch_factor = prefetch

        def _try_get_data(self, timeout: float = _CHECK_S) -> Any:
            """As torch's, but a lent worker that is silent makes way for another."""
            return self._dlqueue_open.receive(self, super()._try_get_data, timeout)

        def _shutdown_workers(self) -> None:
            """As torch's, which waits, and sends a SIGTERM; who ignores that is killed."""
            super()._shutdown_workers()
            end_deaf(self)

        def _dlqueue_may_send(self, prefetch: int) -> bool:
            self._worker_queue_idx_cycle, window = self._dlqueue_turn(prefetch)
            if window > prefetch * self._num_workers:
                self._prefetch_factor = window  # torch puts no more under way than it knows of
            room = self._send_idx - self._rcvd_idx < window
            return room and not too_early(self, prefetch)

        def _dlqueue_turn(self, prefetch: int) -> tuple[Any, int]:
            """Workers in their order, and how many batches may be under way."""
            return self._dlqueue_open, self._dlqueue_ahead.window(self, prefetch)

    Gated.__name__, Gated.__qualname__ = base.__name__, base.__qualname__
    Gated.__module__ = base.__module__
    return Gated


@contextlib.contextmanager
def _made_whole(iterator: Any) -> Iterator[None]:
    try:
        yield
    except BaseException:
        _end_half_made(iterator)
        raise


def _end_half_made(iterator: Any) -> None:
    """End what an iterator that could not be made has started: torch would fail at that, aloud."""
    made = iterator.__dict__
    if made.get("_worker_pids_set"):
        sys.modules["torch.utils.data._utils.signal_handling"]._remove_worker_pids(id(iterator))
        iterator._worker_pids_set = False
    if "_pin_memory_thread_done_event" in made:
        iterator._pin_memory_thread_done_event.set()
    for worker in made.get("_workers", ()):
        worker.kill()
        worker.join()
    iterator._shutdown = True


def end_deaf(iterator: Any) -> None:
    """Kill workers that the program did not ask for: they ignore a SIGTERM that it handles.

    One that hangs in a fetch would hold the program's exit, where multiprocessing waits for all.
    """
    begun = getattr(iterator, "_worker_init_fn", None)
    if getattr(begun, "init", None) is leave_to_the_training:
        for worker in getattr(iterator, "_workers", ()):
            # A fork of the program has a copy of the iterator, and no such children.
            if getattr(worker, "_parent_pid", None) == os.getpid() and worker.is_alive():
                worker.kill()


def _with_kept_heap(loader: Any, context: Any, own: int) -> Any:
    if context.get_start_method() != "fork":  # it would be pickled
        return loader
    init = loader.worker_init_fn
    return view(loader, worker_init_fn=KeptHeap(AsWritten(init, own) if own else init))


def _own_folder() -> None:
    """Have the workers' sockets in a folder of this process, which removes it at its end.

    Each worker would make one (`/tmp/pymp-...`), and one that is killed leaves its own behind.
    """
    from multiprocessing import util

    with contextlib.suppress(Exception):
        util.get_temp_dir()  # workers inherit it


@contextlib.contextmanager
def offered(dataloader: Any, kind: Any, loader: Any, gate: Gate, **changes: Any) -> Iterator[None]:
    """Meanwhile torch's own code, asked by `loader` for workers, makes gated ones.

    The name is torch's again before anything is made: torch 1.13 finds its own base class by it.
    `changes` are to what the workers see of the loader.
    """
    base = dataloader._MultiProcessingDataLoaderIter

    def make(asking: Any) -> Any:
        dataloader._MultiProcessingDataLoaderIter = base
        if asking is loader:
            return kind(view(loader, num_workers=gate.limit, **changes), gate)
        return base(asking)

    dataloader._MultiProcessingDataLoaderIter = make
    try:
        yield
    finally:
        dataloader._MultiProcessingDataLoaderIter = base


def view(loader: Any, **changes: Any) -> Any:
    """A loader of the same parts but for `changes`, for an iterator to see."""
    other = object.__new__(type(loader))
    other.__dict__.update(loader.__dict__)
    other.__dict__.update(changes)
    return other


def _torchs_own() -> Any:
    """Multiprocessing as torch uses it where the loader names no context of its own."""
    return sys.modules["torch"].multiprocessing


def pids(iterator: Any) -> tuple[int, ...]:
    """The process ids of an iterator's workers."""
    return tuple(worker.pid for worker in getattr(iterator, "_workers", ()))


def holds(iterator: Any) -> int:
    """Workers an iterator keeps alive."""
    return 0 if getattr(iterator, "_shutdown", True) else len(iterator._workers)


def end_if_over(iterator: Any) -> None:
    """End the workers of a pass that has handed out its last batch, as torch does a call later.

    Who counts batches never makes that call (Lightning), and keeps the iterator until its next one.
    """
    over = iterator._dlqueue_drawn and not iterator._tasks_outstanding and not iterator._task_info
    if not over or iterator._persistent_workers or iterator._shutdown:
        return
    if any(worker._parent_pid != os.getpid() for worker in iterator._workers):
        return  # a fork of the program has a copy
    feed = iterator._sampler_iter
    if not isinstance(feed, Feed) or feed.may_draw():
        iterator._shutdown_workers()
