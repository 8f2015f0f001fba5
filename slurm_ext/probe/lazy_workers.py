"""From no workers to some, within one pass, and back at the first sign of trouble.

The user holds torch's own single-process iterator. Its first two batches are made in the training
process; if they show nothing against it, a gated multi-process iterator behind it makes the rest
from the same sampler. Indices drawn but not yet delivered are kept: on any failure they go back in
front of the sampler and torch's own single-process code carries on from there.
"""

from __future__ import annotations

import collections
import contextlib
import math
import multiprocessing
import sys
import threading
import time
import weakref
from typing import Any, Callable

from . import rules
from .counters.turns import READ_ELSEWHERE
from .inspection import deep_changes, guarding, index_iterators
from .inspection.fetch_trial import WRITTEN, FetchTrial
from .inspection.guarding import KEEPS_STATE
from .inspection.loop_changes import LoopWatch
from .workers import gated
from .workers.feed import Feed
from .workers.gate import ELSEWHERE, Gate
from .workers.patience import Patient
from .workers.signals import leave_to_the_training

TRIAL_BATCHES = 2
_PATIENCE_S = 30.0  # beyond this and ten times a fetch at home, forked workers have locked up
_PATIENCE_FETCHES = 10.0
_PINNING_S = 6.0  # more than the 5 s after which torch's thread looks if it is to end
_TOO_LARGE = "the dataset is too large to be watched"


class LazyWorkers:
    """Feeds one single-process iterator from workers; `seeded` ones may draw no random numbers."""

    def __init__(self, user_iterator: Any, loader: Any, gate: Gate, seeded: bool) -> None:
        self.user_iterator = weakref.ref(user_iterator)
        self.own_next = type(user_iterator)._next_data
        self.gate, self.seeded = gate, seeded
        self.seen = gated.view(loader)  # a loader that keeps its iterator must not keep itself
        _without_iterators(self.seen)
        self.pending: collections.deque[Any] = collections.deque()
        self.feed = Feed(user_iterator._sampler_iter, self.pending, rules.drawing(loader))
        self.drawn_here = user_iterator._sampler_iter = iter(self.feed.draw, object())
        self.thread = threading.get_ident()
        self.workers: Any = None
        self.starts = 0
        self.trial_due, self.trial_left = True, 0
        self.home_batch_s, self.quickest_s = 0.0, math.inf
        parts = user_iterator._dataset, user_iterator._collate_fn
        self.loop = LoopWatch(*parts, loader._index_sampler)
        self.claimed = gate.first > 0
        self.left: Callable[[int], int]  # workers that may still be claimed
        self.trusted: Callable[[], bool]  # what went well in workers is as it was then
        self.trains_here: Callable[[], bool]  # in the thread that asks for batches
        self.on_start: Callable[[Any, float], None]
        self.on_leave: Callable[[str], None]
        self.on_fall: Callable[[str], None]
        user_iterator.__dict__["_next_data"] = self.next_data

    def next_data(self) -> Any:
        """The next batch, from wherever it is to come."""
        user_iterator = self.user_iterator()
        if not self.claimed and not self._claim():
            return self.own_next(user_iterator)
        if self.loop.has_changed_it():
            return self._stay(user_iterator)
        if self._on_trial():
            return self._trial(user_iterator)
        if self.workers is None and (against := self._against(user_iterator)):
            self._leave(user_iterator, against)
            return self.own_next(user_iterator)
        try:
            if self.workers is None:
                self._start(user_iterator)
            elif not self.pending:
                self._go_on()
            data = self.workers._next_data()
            self.pending.popleft()
            return data
        except StopIteration:
            if not self.pending:
                raise
            reason = "workers ended early"
        except Exception as error:  # whatever it is, the user's own setting goes on
            reason = _clause(error)
        return self._fall(
            user_iterator, reason
        )  # outside: an error of the user's own has no history of ours

    def _go_on(self) -> None:
        """All that could be drawn ahead has come: the training asks for the next."""
        self.feed.allow()
        self.workers._try_put_index()

    def go_home(self) -> None:
        """End the workers between two batches; those of the gate may start again in this pass."""
        user_iterator = self.user_iterator()
        if user_iterator is None or self.workers is None:
            return
        self._end_workers()
        self.feed.put_back(user_iterator._index_sampler)
        self.loop.rest()
        self.workers, self.claimed, self.trial_due = None, False, True

    def _claim(self) -> bool:
        """True if workers are asked for by now, and some are left."""
        self.claimed = self.gate.wanted() > 0 and self._some_left()
        return self.claimed

    def _against(self, user_iterator: Any) -> str | None:
        """The reason against a start now."""
        if _may_be_written(user_iterator):  # this is not always the trial's loop
            return WRITTEN
        return None if self._some_left() else ELSEWHERE

    def _some_left(self) -> bool:
        """False if a pass that began meanwhile has them all."""
        left = min(self.gate.limit, self.left(self.gate.first))
        self.gate.limit = left if left > 0 else self.gate.limit
        return left > 0

    def _on_trial(self) -> bool:
        """True while batches are made at home; those of a trusted dataset need not be."""
        if self.trial_due:
            self.trial_due = False
            # A sampler that is not known shows its iterator with its first index.
            self.trial_left = int(self.feed.drawing is None) if self.trusted() else TRIAL_BATCHES
        return self.trial_left > 0

    def _trial(self, user_iterator: Any) -> Any:
        """One batch at home, and after the last one the verdict on the dataset."""
        last = self.trial_left == 1
        index = self.feed.draw()  # first: a sampler may draw random numbers, too
        parts = user_iterator._dataset, user_iterator._collate_fn
        trial = FetchTrial(*parts, self.seeded, closely=last)
        data = self._at_home(user_iterator, index)
        reason = trial.against(data) or (self._way() if last else None)
        self.loop.begin()
        self.trial_left -= 1
        if reason:
            self._leave(user_iterator, reason)
        return data

    def _way(self) -> str | None:
        """The reason against workers that lies in how the loader is drawn from, asked and seen."""
        if self.feed.drawing is None and not self._listed():
            return "a sampler of its own kind"
        if threading.get_ident() != self.thread or not self.trains_here():
            return READ_ELSEWHERE  # forked beside the training's own work
        # The first batch may have had to wait for what all others find done.
        return None if self.loop.may_look(self.quickest_s) else _TOO_LARGE

    def _listed(self) -> bool:
        """True if all indices stand already, and nothing writes to them in this pass."""
        try:
            if index_iterators.fixed(self.feed.rest):
                return True
            sampled = index_iterators.list_of(self.feed.rest)
            return sampled is not None and not deep_changes.may_come_to_list(
                sampled, self.user_iterator()
            )
        except Exception:  # objects of another kind
            return False

    def _at_home(self, user_iterator: Any, index: Any) -> Any:
        """One batch, made by torch's own code in this process."""
        user_iterator._sampler_iter = iter((index,))
        began = time.perf_counter()
        try:
            return self.own_next(user_iterator)
        finally:
            user_iterator._sampler_iter = self.drawn_here
            took_s = time.perf_counter() - began
            self.home_batch_s = max(self.home_batch_s, took_s)
            self.quickest_s = min(self.quickest_s, took_s)

    def _start(self, user_iterator: Any) -> None:
        began = time.perf_counter()
        torch = sys.modules["torch"]
        self.feed.allow()
        seeing = gated.view(
            self.seen,
            num_workers=self.gate.limit,
            prefetch_factor=2,
            persistent_workers=False,
            worker_init_fn=leave_to_the_training,  # the user's nobody calls as written
            pin_memory=user_iterator._pin_memory,  # False if torch found no accelerator
            generator=torch.Generator().manual_seed(
                user_iterator._base_seed + self.starts
            ),  # the user's own stays still
            _DataLoader__multiprocessing_context=multiprocessing.get_context("fork"),
            **{"batch_sampler" if user_iterator._auto_collation else "sampler": self.feed},
        )
        guarding.guard = guard = guarding.Guard(self.seeded)
        try:
            self.workers = Gated.kind(seeing, self.gate)
        finally:
            guarding.guard = None
        self.loop.begin(forked=True)
        self.workers._dlqueue_guard = guard
        self.starts += 1
        self._adopt(self.workers)
        self.on_start(self.workers, time.perf_counter() - began)

    def _adopt(self, workers: Any) -> None:
        """A worker that dies must not raise in the middle of the user's step, as torch's would."""
        signals = Gated.module._utils.signal_handling
        signals._remove_worker_pids(id(workers))
        workers._worker_pids_set = False
        share = workers._num_workers / max(1, multiprocessing.cpu_count())
        patience = _PATIENCE_S + _PATIENCE_FETCHES * self.home_batch_s * max(1.0, share)
        workers._get_data = Patient(workers, patience)

    def _stay(self, user_iterator: Any) -> Any:
        """The next batch of data that the loop changes: made now, as all that come after it."""
        if self.workers is not None:
            return self._fall(user_iterator, KEEPS_STATE)
        self._leave(user_iterator, KEEPS_STATE)
        return self.own_next(user_iterator)

    def _fall(self, user_iterator: Any, reason: str) -> Any:
        self.on_fall(reason)
        self._home(user_iterator)
        return self.own_next(user_iterator)

    def _leave(self, user_iterator: Any, reason: str) -> None:
        self.on_leave(reason)
        self._home(user_iterator)

    def _home(self, user_iterator: Any) -> None:
        """Hands what is left of the pass to torch's own code, in order."""
        self.feed.put_back(user_iterator._index_sampler)
        user_iterator._sampler_iter = self.feed.rest
        user_iterator.__dict__.pop("_next_data", None)
        self.loop.rest()
        self._end_workers()

    def _end_workers(self) -> None:
        if self.workers is not None:
            with contextlib.suppress(Exception):
                for worker in self.workers._workers:
                    worker.kill()
                # One that was killed while it looked at torch's event keeps the event's lock.
                self.workers._workers_done_event = threading.Event()
                _end_pinning(self.workers)
                self.workers._shutdown_workers()


def _end_pinning(workers: Any) -> None:
    """End torch's thread for pinned memory, or leave it: torch would wait for it without end.

    It reads on for ever where a worker was killed in the middle of a message.
    """
    thread = getattr(workers, "_pin_memory_thread", None)
    if thread is None:
        return
    workers._pin_memory_thread_done_event.set()
    workers._worker_result_queue.put((None, None))  # as torch: it may be waiting
    thread.join(_PINNING_S)
    if thread.is_alive():  # as a daemon it holds up nothing
        del workers._pin_memory_thread
        workers._worker_result_queue.cancel_join_thread()


def _may_be_written(iterator: Any) -> bool:
    try:
        return deep_changes.may_come(iterator)
    except Exception:  # objects of another kind
        return True


def _without_iterators(loader: Any) -> None:
    base = Gated.module._BaseDataLoaderIter
    for name in [name for name, value in vars(loader).items() if isinstance(value, base)]:
        loader.__dict__[name] = None


class Gated:
    """This torch's gated iterator classes and their module, set once by `attach`."""

    kind: Any = None
    seeded: Any = None
    module: Any = None


def _clause(error: BaseException) -> str:
    """One line for the summary; an error from a worker brings a traceback: its last line."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = lines[-1] if len(lines) > 1 else f"{type(error).__name__}: {''.join(lines)}"
    return text.rpartition("UnfitError: ")[2][:200]
