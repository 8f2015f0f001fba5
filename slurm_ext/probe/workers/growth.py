"""More workers for a gated multi-process iterator that is in the middle of a pass.

torch makes all of an iterator's workers when it makes the iterator. `add_workers` makes one more
in the same way, from the iterator's own parts, and adds it to torch's lists. It holds only for a
torch whose worker function takes the parameters that are known here, and only where workers are
forked; elsewhere `can_add` is False and more workers start with the next pass.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import time
from typing import Any, Callable

from ..inspection import guarding
from ..inspection.dataset_inspection import DatasetInspection
from ..inspection.loop_changes import Snapshot
from ..lending.lent_worker import Ended, LentWorker, way_in
from .quiet_forks import quiet_forks

# Parameters of torch's worker function, and the iterator's attribute that fills each.
_FILLED_BY = {
    "dataset_kind": "_dataset_kind",
    "dataset": "_dataset",
    "data_queue": "_worker_result_queue",
    "done_event": "_workers_done_event",
    "auto_collation": "_auto_collation",
    "collate_fn": "_collate_fn",
    "drop_last": "_drop_last",
    "base_seed": "_base_seed",
    "init_fn": "_worker_init_fn",
    "num_workers": "_num_workers",
    "persistent_workers": "_persistent_workers",
    "shared_seed": "_shared_seed",
}
_PATIENCE_S = 0.3  # as long as the training stands still for new workers
_OF_ONE_WORKER = {"index_queue", "worker_id"}
_LISTS = ("_index_queues", "_workers", "_workers_status")


def can_add(iterator: Any) -> bool:
    """True if `add_workers` can start workers for this iterator now, within its pass."""
    context = iterator.__dict__.get("_dlqueue_context")
    if context is None or getattr(iterator, "_shutdown", True):
        return False
    streams = iterator.__dict__.get("_dlqueue_streams")
    if streams is not None and not streams.free:  # its workers' random states are the user's
        return False
    names = set(inspect.signature(_worker_loop()).parameters)
    known = _OF_ONE_WORKER <= names <= _OF_ONE_WORKER | set(_FILLED_BY)
    parts = [_FILLED_BY[name] for name in names - _OF_ONE_WORKER] if known else []
    complete = known and all(hasattr(iterator, part) for part in (*parts, *_LISTS))
    forks = complete and context.get_start_method() == "fork"
    return bool(forks and _as_remembered(iterator))


def may_add_later(iterator: Any) -> bool:
    """True while the trial of its seeded workers (streams.py) is not over."""
    streams = iterator.__dict__.get("_dlqueue_streams")
    return bool(streams is not None and streams.watching and not streams.free)


def remember(iterator: Any) -> None:
    """Keep what the dataset looks like now, as the iterator's present workers know it.

    A worker that is forked later would know what the training process changed in between. What
    cannot be looked at counts as changed.
    """
    if "_dlqueue_signature" in iterator.__dict__:
        return
    iterator._dlqueue_signature = object()  # equals nothing
    with contextlib.suppress(Exception):  # objects of another kind
        iterator._dlqueue_snapshot = Snapshot(iterator._dataset)
        iterator._dlqueue_signature = DatasetInspection(iterator._dataset).signature


def _as_remembered(iterator: Any) -> bool:
    before = iterator.__dict__.get("_dlqueue_signature")
    if before is None:
        return True
    try:
        if before != DatasetInspection(iterator._dataset).signature:
            return False
        snapshot = iterator._dlqueue_snapshot
        return not (snapshot.changed() or snapshot.written())
    except Exception:  # arrays that are not the same ones
        return False


def add_workers(
    iterator: Any, count: int, begin: Callable[[], None] | None = None
) -> tuple[int, ...]:
    """Start up to `count` more workers for a gated iterator that runs; return their process ids.

    They come after the present ones in `iterator._workers`, and get work once the gate opens for
    their index (`OpenWorkers`). `begin` makes them lent ones (lending/lent_worker.py): each calls
    it before anything else, to change its priority. Fewer start where the system refuses a process,
    or is slow to start them (the training waits meanwhile; ask again); none where `can_add` is
    False. The caller answers for memory, raises the gate's limit, and lets the pass count the new
    workers' fetches (`WorkersTotals.join`); `Session.grow` does all three.
    """
    if not can_add(iterator):
        return ()
    before = len(iterator._workers)
    guarding.guard = iterator.__dict__.get("_dlqueue_guard")
    try:
        with contextlib.suppress(OSError):  # no more processes, files or memory
            ends = time.perf_counter() + _PATIENCE_S
            for _ in range(count):
                _add_one(iterator, begin)
                if time.perf_counter() > ends:
                    break
    finally:
        guarding.guard = None
        _watch_for_death(iterator)
    return tuple(worker.pid for worker in iterator._workers[before:])


def _add_one(iterator: Any, begin: Callable[[], None] | None) -> None:
    context = iterator._dlqueue_context
    queue = context.Queue()
    queue.cancel_join_thread()  # as torch: a queue that is full must not hold up Python's end
    given = {
        name: getattr(iterator, _FILLED_BY[name])
        for name in inspect.signature(_worker_loop()).parameters
        if name in _FILLED_BY
    }
    given.update(index_queue=queue, worker_id=len(iterator._workers))
    batches, ended = (context.Queue(), Ended()) if begin is not None else (None, None)
    if ended is not None:  # nothing of a lent worker's has a lock that others take
        given.update(data_queue=batches, done_event=ended)
    streams = iterator.__dict__.get("_dlqueue_streams")
    if streams is not None and streams.draws_matter:  # a second one of the user's
        given.update(num_workers=streams.workers, worker_id=given["worker_id"] % streams.workers)
    worker = context.Process(target=_begin, args=(begin,), kwargs=given)
    worker.daemon = True
    with quiet_forks():
        worker.start()
    if ended is not None:
        queue = worker = LentWorker(worker, queue, batches, way_in(iterator), ended)
    _enlist(iterator, worker, queue)


def _enlist(iterator: Any, worker: Any, queue: Any) -> None:
    iterator._index_queues.append(queue)
    iterator._workers.append(worker)
    iterator._workers_status.append(True)
    if hasattr(iterator, "_workers_num_tasks"):  # since torch 2.6
        iterator._workers_num_tasks.append(0)
    iterator._num_workers += 1


def _begin(begin: Callable[[], None] | None, **given: Any) -> None:
    """In the worker: what the caller wants first, then torch's own loop."""
    if begin is not None:
        with contextlib.suppress(Exception):
            begin()
    _worker_loop()(**given)


def _watch_for_death(iterator: Any) -> None:
    """Have torch's signal handler see the new workers as it sees the others, where it sees any.

    A lent worker's death ends no training.
    """
    if iterator._worker_pids_set:
        signals = sys.modules["torch.utils.data._utils.signal_handling"]
        own = [one.pid for one in iterator._workers if not isinstance(one, LentWorker)]
        signals._remove_worker_pids(id(iterator))
        signals._set_worker_pids(id(iterator), tuple(own))


def _worker_loop() -> Any:
    return sys.modules["torch.utils.data._utils.worker"]._worker_loop
