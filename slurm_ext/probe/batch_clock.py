"""Batches as the loop asks for them: waits, steps, and what is due between two of them."""

from __future__ import annotations

import functools
import threading
import time
from typing import Any, Callable

from .process import ProbeState, session_of

_FETCHING: set[int] = set()  # threads that wait for a batch now


def noted_new(kind: Any, *_: Any, **__: Any) -> Any:
    """Of torch's iterators: says when one is about to start; no frame between it and its maker."""
    made = object.__new__(kind)
    made.__dict__["_dlqueue_made_at"] = time.perf_counter()
    return made


def noted_reset(original: Callable[..., None]) -> Callable[..., None]:
    """Of torch's iterators: says when one that lasts begins another pass."""

    @functools.wraps(original)
    def _reset(self: Any, *args: Any, **options: Any) -> None:
        self.__dict__.setdefault("_dlqueue_made_at", time.perf_counter())
        original(self, *args, **options)

    return _reset


def adopting_iter(original: Callable[[Any], Any], dataloader: Any) -> Callable[[Any], Any]:
    """Of torch's iterators: only other libraries' loaders begin a pass here (fastai's)."""

    @functools.wraps(original)
    def __iter__(self: Any) -> Any:  # noqa: N807 - it takes that method's place
        _adopt(self, dataloader)
        return original(self)

    return __iter__


def _adopt(iterator: Any, dataloader: Any) -> None:
    """Measure a pass that no DataLoader of torch's own began; one that cannot be, once."""
    made_at = iterator.__dict__.pop("_dlqueue_made_at", None)
    if made_at is not None and not hasattr(iterator, "_dlqueue_open"):
        session = session_of(dataloader)
        if session:
            session.safely(session.adopt, iterator, made_at)


def timed_next(original: Callable[[Any], Any], dataloader: Any) -> Callable[[Any], Any]:
    """Return torch's `__next__` with a clock around it."""
    clock = time.perf_counter

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807 - it takes that method's place
        current = self.__dict__.get("_dlqueue")
        if current is None or "_dlqueue_made_at" in self.__dict__:
            _adopt(self, dataloader)  # by its first batch: torchdata's loader has its own __iter__
            current = self.__dict__.get("_dlqueue")
        if current is None:
            return original(self)
        began, thread = clock(), threading.get_ident()
        feeds = _asked(current, began, thread)
        try:
            _FETCHING.add(thread)
            data = original(self)
        except BaseException as error:
            _interrupted(current, clock() - began, isinstance(error, StopIteration))
            raise
        finally:
            if not feeds:
                _FETCHING.discard(thread)
        now = current.last = clock()
        current.wait_s += now - began
        current.batches += 1
        if current.reads:
            current.read(data)
        if current.closely:
            current.closely -= 1
            current.wait_queued_s += current.queued()
        if now >= current.due or current.batches >= current.tune_at:
            _look(current, data, now)
            current.last = clock()
        return data

    return __next__


def _asked(current: Any, began: float, thread: int) -> bool:
    """A batch is asked for; True if it feeds a loader that this thread is asking (TorchIO's)."""
    feeds = thread in _FETCHING
    if feeds:
        current.evaluates = True
    else:
        ProbeState.turns.to(current, began)
    if current.last:
        current.step_s += began - current.last
        if current.closely:
            current.step_queued_s += current.queued()
    return feeds


def timed_del(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Ends of workers count as their starts do, where a pass is left before its own end."""
    clock = time.perf_counter

    @functools.wraps(original)
    def __del__(self: Any) -> None:  # noqa: N807 - it takes that method's place
        began = clock()
        original(self)
        try:  # noqa: SIM105 - when Python ends, nothing else may be there
            _left_early(self.__dict__.get("_dlqueue"), clock() - began)
        except Exception:  # noqa: S110 - as above
            pass

    return __del__


def _left_early(current: Any, seconds: float) -> None:
    if current is not None and not current.over and current.batches and current.trains():
        current.meter.startup_s += seconds


def _look(current: Any, data: Any, now: float) -> None:
    """Do between two batches all that is due: measuring, summary, the tuner's decision."""
    session = ProbeState.session
    if session and now >= current.due:
        session.safely(current.told.weigh, data)  # first: no worker more before that is known
        session.safely(session.look, current, now)
    if session and current.batches >= current.tune_at:
        session.safely(session.tune, current, now)


def _interrupted(current: Any, wait_s: float, at_end: bool) -> None:
    """Add the last wait of a pass that is over, or whose loader raised: no batch came of it."""
    current.wait_s += wait_s
    current.last = 0.0
    session = ProbeState.session
    if at_end and session:
        session.safely(session.ended, current)
