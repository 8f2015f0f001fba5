"""Puts the probe into torch: four methods, patched once, and a hook, when the job imports torch.

Each patched method does what it did before; the added part may fail without the job noticing.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import multiprocessing
import os
import sys
import threading
import time
from typing import Any, Callable, Iterator

from .counters import applied, backward, compiled, fetching, frameworks, steps
from .counters.turns import Turns
from .directive import Directive
from .inspection import guarding
from .stalls import gradient_sync
from .step_session import StepSession
from .streams.watch import AnyWorkers, Init, Watch

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # either is torch's number of threads
_DUE_S = 0.2  # between looks at the summary


class _Process:
    """State of this process; a forked child starts without it."""

    dataloader: Any = None  # torch's module, once it is there
    session: Any = None
    worker: Any = None
    directive: Directive | None = None
    turns = Turns(steps.StepClock())
    imported_s = 0.0  # of the first framework
    founding = threading.RLock()  # held while the session is made
    starting = threading.Lock()  # held while a pass begins


def attach(dataloader: Any) -> None:
    """Patches torch.utils.data.dataloader, which has just been imported."""
    note(dataloader)
    _begin_anew(dataloader)
    _keep_threads(_Process.directive or Directive())
    fetch = dataloader._utils.fetch
    for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        kind.fetch = _measured_fetch(kind.fetch, dataloader._utils.worker)
    loader = dataloader.DataLoader
    loader.__iter__ = _watched_iter(loader.__iter__, dataloader)
    base = dataloader._BaseDataLoaderIter
    base.__next__ = _timed_next(base.__next__, dataloader)
    base.__iter__ = _adopting_iter(base.__iter__, dataloader)
    several = dataloader._MultiProcessingDataLoaderIter
    several.__del__ = _timed_del(several.__del__)


def note(_framework: Any) -> None:
    """A framework was imported: should none of its steps be known, the summary says so."""
    if not _Process.imported_s:
        _Process.imported_s = time.time()
        _Process.directive = Directive()
        os.register_at_fork(after_in_child=_forget)
        atexit.register(_tell_of_no_step)


def _begin_anew(dataloader: Any) -> None:
    """From here on there are loaders: steps that another framework made so far stay counted."""
    _Process.dataloader = dataloader
    if _Process.session:
        _Process.session.leave()
        _Process.session = None


def follow(callbacks: Any) -> None:
    """Counts the steps of Keras's fits; `callbacks` is its module, just imported."""
    note(callbacks)
    frameworks.follow_fits(callbacks, _begin, _count)


def apply(optimizers: Any) -> None:
    """Counts the steps that a program makes with Keras's optimisers in a loop of its own."""
    note(optimizers)
    applied.follow_applies(optimizers, _count)


def call(functions: Any) -> None:
    """Counts the calls of TensorFlow's functions that make such a step."""
    applied.follow_calls(functions, _begin, _count)


def annotate(profiler: Any) -> None:
    """Counts the steps that a program of JAX marks; `profiler` is its module, just imported."""
    frameworks.follow_marks(profiler, _count)


def _keep_threads(directive: Directive) -> None:
    """Give torch the threads that it had before the job got more CPUs; a word of its user's wins.

    They would spin on the CPUs that came for workers, and sums of other parts round otherwise.
    """
    if directive.num_threads is None or any(name in os.environ for name in _THREADS):
        return
    with contextlib.suppress(Exception):  # of an unknown torch
        torch = sys.modules["torch"]
        if torch.get_num_threads() > directive.num_threads:
            torch.set_num_threads(directive.num_threads)


def listen(optimizer: Any) -> None:
    """Counts the steps of every optimiser; `optimizer` is torch.optim.optimizer, just imported."""
    steps.hook(optimizer, _stepped)
    compiled.follow_makers(optimizer.Optimizer)


def differentiate(autograd: Any) -> None:
    """Counts backward passes, for programs without an optimiser; `autograd` is torch's module."""
    backward.follow_passes(autograd, _passed)


def follow_modes(modules: Any) -> None:
    """Leaves validations out of the steps' clock; `modules` is torch.nn.modules.module."""
    steps.follow_turns(modules.Module, _turn)


def _turn(trains: bool, now: float) -> None:
    _Process.turns.turn(trains, now)


def synchronise(distributed: Any) -> None:
    """Follows gradients to other ranks; `distributed` is torch.nn.parallel.distributed."""
    gradient_sync.watch(distributed.DistributedDataParallel, _made)


def _begin(model: Any, now: float) -> None:
    _Process.turns.steps.begin(model, now)


def _made(module: Any, construction: Any) -> None:
    clock = _Process.turns.steps
    clock.sync.made(module, clock.total, time.perf_counter(), construction)


def _passed(now: float) -> None:
    if not _Process.turns.steps.total:
        _Process.turns.steps.passes.add(now)
        _write_if_due(now)


def _stepped(optimiser: Any, now: float) -> None:
    _Process.turns.unseen = None
    _count(optimiser, now)


def _count(optimiser: Any, now: float) -> None:
    _Process.turns.count(optimiser, now)
    _write_if_due(now)


def _write_if_due(now: float) -> None:
    clock = _Process.turns.steps
    if now >= clock.due:
        clock.due = now + _DUE_S
        session = _session(_Process.dataloader)
        if session:
            session.safely(session.writer.write_if_due, now)


def _tell_of_no_step() -> None:
    """At Python's end: a job with a framework and no step that is known has a summary, too.

    One is enough: where another process of the job wrote its own, this one adds nothing.
    """
    with contextlib.suppress(Exception):
        directive = _Process.directive or Directive()
        if _Process.session is not None or multiprocessing.parent_process() is not None:
            return
        if any(name.startswith("summary-") for name in os.listdir(directive.run_dir)):
            return
        session = _session(_Process.dataloader)
        session.writer.started(_Process.imported_s)
        session.finish()


def _forget() -> None:
    _Process.session = None
    _Process.worker = None
    _Process.turns = Turns(steps.StepClock())
    _Process.founding = threading.RLock()  # another thread may have held it, or the other one
    _Process.starting = threading.Lock()


def _watched_iter(original: Callable[[Any], Any], dataloader: Any) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def __iter__(self: Any) -> Any:  # noqa: N807 - it takes that method's place
        session = _session(dataloader)
        meter = session and session.safely(session.meter, self)
        if not meter:
            return original(self)
        kept = getattr(self, "_iterator", None)  # persistent workers
        began = time.perf_counter()
        _Process.turns.leave(began)
        with _alone() as alone:
            gate: Any = session.safely(session.gates.gate, self, meter) if alone else None
            iterator = _iterator(original, dataloader, self, gate) if alone else original(self)
        fresh = gate is not None and self.num_workers and iterator is not kept
        meter.started(time.perf_counter() - began, gate.limit if fresh else 0)
        session.safely(session.watch, self, iterator, meter, gate)
        return iterator

    return __iter__


def _iterator(original: Callable[[Any], Any], dataloader: Any, loader: Any, gate: Any) -> Any:
    """A pass's iterator, with the gate's workers if there is one, and a look at new workers."""
    kept = getattr(loader, "_iterator", None)
    session = _Process.session
    with guarding.guarded(session.safely(session.gates.guard, loader, gate)) as guard:
        if gate is not None and loader.num_workers:
            iterator = _gated_iter(original, dataloader, loader, gate)
        else:
            iterator = original(loader)
    if guard is not None and iterator is not kept:
        iterator.__dict__["_dlqueue_guard"] = guard
    return iterator


@contextlib.contextmanager
def _alone() -> Iterator[bool]:
    """True if no other pass begins meanwhile, in another thread or around this one."""
    lock = _Process.starting
    alone = lock.acquire(blocking=False)
    try:
        yield alone
    finally:
        if alone:
            lock.release()


def _adopting_iter(original: Callable[[Any], Any], dataloader: Any) -> Callable[[Any], Any]:
    """Of torch's iterators: only other libraries' loaders begin a pass here (fastai's)."""

    @functools.wraps(original)
    def __iter__(self: Any) -> Any:  # noqa: N807 - it takes that method's place
        _adopt(self, dataloader)
        return original(self)

    return __iter__


def _adopt(iterator: Any, dataloader: Any) -> None:
    """Measure an iterator that no DataLoader of torch's own made; one that cannot be, once."""
    if "_dlqueue" not in iterator.__dict__ and not hasattr(iterator, "_dlqueue_open"):
        iterator.__dict__["_dlqueue"] = None
        session = _session(dataloader)
        if session:
            session.safely(session.adopt, iterator)


def _gated_iter(original: Callable[[Any], Any], dataloader: Any, loader: Any, gate: Any) -> Any:
    """The original `__iter__` with the gate's workers; where they cannot start, the user's."""
    generator = loader.generator or sys.modules["torch"].default_generator
    state = generator.get_state()
    with contextlib.suppress(Exception), _offered(dataloader, loader, gate):
        return original(loader)
    generator.set_state(state)  # such as no more processes; an error of the user's own comes again
    return original(loader)


@contextlib.contextmanager
def _offered(dataloader: Any, loader: Any, gate: Any) -> Iterator[None]:
    """Meanwhile the loader's workers are gated ones, of the kind that its seeds allow."""
    from . import lazy_workers
    from .workers import gated

    watch, changes = guarding.guard, {}
    if gate.keeps_streams and isinstance(watch, Watch) and loader.worker_init_fn:
        changes["worker_init_fn"] = Init(watch, loader.worker_init_fn)
    kind = lazy_workers.Gated.seeded if gate.keeps_streams else lazy_workers.Gated.kind
    with gated.offered(dataloader, kind, loader, gate, **changes):
        yield


def _session(dataloader: Any) -> Any:
    """This process's session; False if it could not be made, and is not tried again."""
    if _Process.session is None:
        with _Process.founding:
            if _Process.session is None:
                _Process.session = _new_session(dataloader)
    return _Process.session


def _new_session(dataloader: Any) -> Any:
    """A session with loaders; without torch's module one that has steps alone."""
    if dataloader is None:
        return StepSession(_Process.directive or Directive(), _Process.turns)
    try:
        from . import lazy_workers, session
        from .streams.dealing import seeded_kind
        from .workers.gated import gated_kind

        if lazy_workers.Gated.kind is None:
            lazy_workers.Gated.module = dataloader
            kind = gated_kind(dataloader._MultiProcessingDataLoaderIter)
            lazy_workers.Gated.kind = kind
            lazy_workers.Gated.seeded = seeded_kind(kind)
        directive = _Process.directive or Directive()
        return session.Session(dataloader, directive, _Process.turns)
    except Exception:  # an unknown torch: the loader stays as it is
        return False


def _timed_next(original: Callable[[Any], Any], dataloader: Any) -> Callable[[Any], Any]:
    clock = time.perf_counter

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807 - it takes that method's place
        current = self.__dict__.get("_dlqueue")
        if current is None:
            _adopt(self, dataloader)  # by its first batch: torchdata's loader has its own __iter__
            current = self.__dict__.get("_dlqueue")
        if current is None:
            return original(self)
        began = clock()
        _Process.turns.to(current, began)
        if current.last:
            current.step_s += began - current.last
            if current.closely:
                current.step_queued_s += current.queued()
        try:
            data = original(self)
        except BaseException as error:
            _interrupted(current, clock() - began, isinstance(error, StopIteration))
            raise
        now = current.last = clock()
        current.wait_s += now - began
        current.batches += 1
        if current.counts_rows:
            current.told.count_rows(data)
        if current.closely:
            current.closely -= 1
            current.wait_queued_s += current.queued()
        if now >= current.due or current.batches >= current.tune_at:
            _look(current, data, now)
            current.last = clock()
        return data

    return __next__


def _timed_del(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
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
    if current is not None and not current.over and current.batches:
        current.meter.startup_s += seconds


def _look(current: Any, data: Any, now: float) -> None:
    """Do between two batches all that is due: measuring, summary, the tuner's decision."""
    session = _Process.session
    if session and now >= current.due:
        session.safely(session.look, current, now)
        session.safely(current.told.weigh, data)
    if session and current.batches >= current.tune_at:
        session.safely(session.tune, current, now)


def _interrupted(current: Any, wait_s: float, at_end: bool) -> None:
    """Add the last wait of a pass that is over, or whose loader raised: no batch came of it."""
    current.wait_s += wait_s
    current.last = 0.0
    session = _Process.session
    if at_end and session:
        session.safely(session.ended, current)


def _measured_fetch(original: Callable[..., Any], worker: Any) -> Callable[..., Any]:
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
    """The totals of the DataLoader worker that this process is; None: it is not one."""
    if worker._worker_info is None:
        return None
    if _Process.worker is None:
        directive = _Process.directive or Directive()
        urgent = directive.gates  # the gate waits for it
        _Process.worker = fetching.WorkerMeter(
            directive.run_dir, guarding.guard, memory_after=1 if urgent else 4
        )
    return _Process.worker
