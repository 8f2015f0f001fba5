"""A pass over a loader begins: it is measured, and gated where the gate lets it."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from typing import Any, Callable, Iterator

from .inspection import guarding
from .process import ProbeState, session_of
from .streams.watch import Init, Watch

_CLAUSE = 200  # characters


def watched_iter(original: Callable[[Any], Any], dataloader: Any) -> Callable[[Any], Any]:
    """Return a DataLoader's `__iter__` whose iterator is watched, and gated if that is right."""

    @functools.wraps(original)
    def __iter__(self: Any) -> Any:  # noqa: N807 - it takes that method's place
        asked = time.perf_counter()
        session = session_of(dataloader)
        meter = session and session.safely(session.meter, self)
        if not meter:
            with _unfollowed():
                return original(self)
        kept = getattr(self, "_iterator", None)  # persistent workers
        began = time.perf_counter()
        ProbeState.turns.leave(began)
        with starting_alone() as alone:
            gate: Any = session.safely(session.gates.gate, self, meter) if alone else None
            iterator = _iterator(original, dataloader, self, gate) if alone else original(self)
        gate = None if meter.fallback else gate
        fresh = gate is not None and self.num_workers and iterator is not kept
        meter.own_start_s += began - asked
        meter.starts.begin(began - asked)
        meter.started(time.perf_counter() - began, gate.limit if fresh else 0)
        session.safely(session.watch, self, iterator, meter, gate)
        return iterator

    return __iter__


@contextlib.contextmanager
def _unfollowed() -> Iterator[None]:
    """Meanwhile this thread's workers start without totals, which nobody would remove."""
    following = ProbeState.following
    before, following.by_a_meter = following.by_a_meter, False
    try:
        yield
    finally:
        following.by_a_meter = before


def _iterator(original: Callable[[Any], Any], dataloader: Any, loader: Any, gate: Any) -> Any:
    """A pass's iterator, with the gate's workers if there is one, and a look at new workers."""
    kept = getattr(loader, "_iterator", None)
    session = ProbeState.session
    with guarding.guarded(session.safely(session.gates.guard, loader, gate)) as guard:
        if gate is not None and loader.num_workers:
            iterator = _gated_iter(original, dataloader, loader, gate, session.meter(loader))
        else:
            iterator = original(loader)
    if guard is not None and iterator is not kept:
        iterator.__dict__["_dlqueue_guard"] = guard
    return iterator


@contextlib.contextmanager
def starting_alone() -> Iterator[bool]:
    """True if no other pass begins meanwhile, in another thread or around this one."""
    lock = ProbeState.starting
    alone = lock.acquire(blocking=False)
    try:
        yield alone
    finally:
        if alone:
            lock.release()


def _gated_iter(
    original: Callable[[Any], Any], dataloader: Any, loader: Any, gate: Any, meter: Any
) -> Any:
    """The original `__iter__` with the gate's workers; where they cannot start, the user's."""
    generator = loader.generator or sys.modules["torch"].default_generator
    state = generator.get_state()
    try:
        with _offered(dataloader, loader, gate):
            return original(loader)
    except Exception as error:  # one of the user's own comes again
        if isinstance(error, OSError) or "new thread" in str(error):  # no more processes, files
            meter.fallback = f"workers could not start: {error}"[:_CLAUSE]
            meter.gate_open = meter.most_workers = None
    generator.set_state(state)
    return original(loader)


@contextlib.contextmanager
def _offered(dataloader: Any, loader: Any, gate: Any) -> Iterator[None]:
    """Meanwhile the loader's workers are gated ones, of the kind that its seeds allow."""
    from . import lazy_workers
    from .workers import gated

    watch, changes = guarding.guard, {}
    if gate.draws_matter and isinstance(watch, Watch) and loader.worker_init_fn:
        changes["worker_init_fn"] = Init(watch, loader.worker_init_fn)
    kind = lazy_workers.Gated.seeded if gate.keeps_streams else lazy_workers.Gated.kind
    with gated.offered(dataloader, kind, loader, gate, **changes):
        yield
