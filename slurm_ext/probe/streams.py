"""Pinned seeds and user's workers: batches go to other workers as long as none draws.

Torch seeds each of the user's N workers, and batch i is worker i mod N's: what its fetches draw
depends on the batches that it made before. So a pass begins as written. Where the first fetches of
all N workers drew nothing and left the dataset as it was, more workers start and batches go to any
of them; each batch is checked where it is made. The first one that draws is refused there, and the
pass goes on as written from that batch on: the N workers' random states are still those that they
would have had, for nothing was drawn since.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import sys
import threading
import time
from typing import Any, Callable, Iterator

from . import fetching
from .autotune import NEVER
from .determinism.dataset_inspection import DatasetInspection

TRIAL_FETCHES = 2
NOT_YET, CLEAN, DRAWS, KEEPS_STATE = 0.0, 1.0, 2.0, 3.0
REASONS = {
    DRAWS: "pinned seeds (DLQUEUE_SEEDED=allow lifts this)",
    KEEPS_STATE: "the dataset keeps state",
}


# -- in a worker -----------------------------------------------------------------------------


class AnyWorkers:
    """An index whose batch any worker may make; `worker` would make it as written."""

    __slots__ = ("index", "worker")

    def __init__(self, index: Any, worker: int) -> None:
        self.index, self.worker = index, worker

    def __reduce__(self) -> Any:
        return type(self), (self.index, self.worker)

    def made(self, make: Callable[[Any], Any]) -> Any:
        """The batch; UnfitError, and the random states of before, where making it drew."""
        before = fetching.random_state()
        try:
            with _seen_as(self.worker):
                held = fetching.random_state()
                data = make(self.index)
                drew = not fetching.same_state(held, fetching.random_state())
        finally:
            fetching.set_random_state(before)
        if drew:
            raise fetching.UnfitError(fetching.DREW)
        return data


@contextlib.contextmanager
def _seen_as(number: int) -> Iterator[None]:
    """Show the dataset the worker that it would be in: its number and torch's first seed."""
    module: Any = sys.modules["torch.utils.data._utils.worker"]
    own = module._worker_info
    if own.id == number:
        yield
        return
    seed = own.seed - own.id + number
    module._worker_info = module.WorkerInfo(
        id=number, num_workers=own.num_workers, seed=seed, dataset=own.dataset
    )
    torch = sys.modules["torch"]
    torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
    try:
        yield
    finally:
        module._worker_info = own


class Watch(fetching.Guard):
    """Notes what a worker's first fetches do; refuses nothing. `closely`: to the dataset, too."""

    refuses = False

    def __init__(self, closely: bool) -> None:
        super().__init__(seeded=True)
        self.closely = closely
        self.fetches = 0

    def before(self, fetcher: Any) -> Any:
        """Random states, and before the last fetch of the trial the dataset's."""
        if self.fetches >= TRIAL_FETCHES or self.finding > CLEAN:
            return None
        last = self.closely and self.fetches == TRIAL_FETCHES - 1
        dataset = fetcher.dataset
        return dataset if last else None, _signature(dataset, last), fetching.random_state()

    def after(self, state: Any, data: Any) -> None:
        """Compares, and publishes what was found once the trial is over."""
        del data
        if state is None:
            return
        dataset, signature, random = state
        self.fetches += 1
        if not fetching.same_state(random, fetching.random_state()):
            self.finding = DRAWS
        elif dataset is not None and _signature(dataset, True) != signature:
            self.finding = KEEPS_STATE
        elif self.fetches == TRIAL_FETCHES:
            self.finding = CLEAN

    def started(self, init: Callable[[int], Any], number: int) -> None:
        """Run the user's `worker_init_fn`; one that changes the dataset ties it to its worker."""
        dataset = vars(sys.modules["torch.utils.data._utils.worker"])["_worker_info"].dataset
        before = _signature(dataset, self.closely)
        init(number)
        if _signature(dataset, self.closely) != before:
            self.finding = KEEPS_STATE


def _signature(dataset: Any, wanted: bool) -> Any:
    """The dataset's state; where it cannot be looked through, something that equals nothing."""
    if not wanted:
        return None
    try:
        return DatasetInspection(dataset).signature
    except Exception:
        return object()


class Init:
    """A `worker_init_fn` that is watched."""

    def __init__(self, watch: Watch, init: Callable[[int], Any]) -> None:
        self.watch, self.init = watch, init

    def __call__(self, number: int) -> None:
        """As torch calls it, in the worker."""
        self.watch.started(self.init, number)


# -- in the training process -----------------------------------------------------------------


class Streams:
    """Dealing of one iterator's batches: `free` to any worker, else as written."""

    def __init__(self, workers: int) -> None:
        self.workers = workers  # of the user's
        self.free = False
        self.watching = True  # not decided yet, or free
        self.draining = False
        self.delivered = 0
        self.sent: collections.deque[Any] = collections.deque()
        self.decide: Callable[[], None] = lambda: None
        self.on_fall: Callable[[str], None]

    def task(self, index: Any, number: int) -> Any:
        """The task that is sent for the batch of this number."""
        if self.watching:
            self.sent.append(index)
        return AnyWorkers(index, number % self.workers) if self.free else index

    def turn(self, number: int, prefetch: int) -> tuple[Iterator[int], int]:
        """As written: the worker of the batch of this number, and batches under way."""
        window = 0 if self.draining else prefetch * self.workers
        return itertools.repeat(number % self.workers), window

    @contextlib.contextmanager
    def drained(self) -> Iterator[None]:
        """Meanwhile nothing is sent, and what comes next is sent as written."""
        self.free, self.draining = False, True
        yield
        self.draining = False

    def leave(self, iterator: Any, receive: Callable[[], Any]) -> None:
        """Workers that stay have made all that was under way as written, draws included."""
        if not (self.free and self.sent):  # no pass was left early
            return
        began, again = iterator._rcvd_idx, list(self.sent)
        with self.drained():
            drew = _let_go(iterator, receive)
        number = iterator._send_idx if drew is None else drew
        iterator._rcvd_idx = began
        _send_again(iterator, number, again[number - began :])
        if drew is None:
            self.free = True
        else:
            self.stay()
            self.on_fall(fetching.DREW)

    def deliver(self) -> bool:
        """A batch came; True if this is the moment to decide."""
        self.delivered += 1
        if self.watching:
            self.sent.popleft()
        return self.delivered == TRIAL_FETCHES * self.workers and not self.free

    def stay(self) -> None:
        """As written for good."""
        self.free = self.watching = False
        self.sent.clear()


def _let_go(iterator: Any, receive: Callable[[], Any]) -> int | None:
    """Receive all that is under way for nothing, errors too; the first batch that drew, if any."""
    drew = None
    while iterator._rcvd_idx < iterator._send_idx:
        before = iterator._rcvd_idx
        try:
            receive()
        except Exception as error:
            if iterator._rcvd_idx == before:  # a worker died: torch's own error
                raise
            error.__traceback__ = None  # torch holds it, and by it the workers
            if drew is None and isinstance(error, fetching.UnfitError):
                drew = before
    return drew


def _send_again(iterator: Any, number: int, indices: list[Any]) -> None:
    """As written from this batch on, whose index and those after it were drawn before."""
    iterator._send_idx = number
    iterator._rcvd_idx = min(iterator._rcvd_idx, number)
    iterator._sampler_iter = itertools.chain(indices, iterator._sampler_iter)
    iterator._try_put_index()


def seeded_kind(base: Any) -> Any:
    """A subclass of the gated iterator that begins as written; it bears torch's name."""

    class Seeded(base):  # type: ignore[misc]
        __doc__ = base.__doc__
        _send_idx: int
        _rcvd_idx: int
        _sampler_iter: Any

        def __init__(self, loader: Any, gate: Any) -> None:
            self._dlqueue_streams = Streams(loader.num_workers)
            super().__init__(loader, gate)

        def _reset(self, loader: Any, first_iter: bool = False) -> None:
            streams = self._dlqueue_streams
            streams.leave(self, super()._next_data)
            streams.sent.clear()
            super()._reset(loader, first_iter)

        def _next_index(self) -> Any:
            return self._dlqueue_streams.task(super()._next_index(), self._send_idx)

        def _dlqueue_turn(self, prefetch: int) -> tuple[Any, int]:
            streams = self._dlqueue_streams
            if streams.free:
                return super()._dlqueue_turn(prefetch)  # type: ignore[no-any-return]
            return streams.turn(self._send_idx, prefetch)

        def _next_data(self) -> Any:
            streams = self._dlqueue_streams
            try:
                data = super()._next_data()
            except fetching.UnfitError as error:
                error.__traceback__ = None  # torch's frames hold it, and by it the workers
                streams.on_fall(fetching.DREW)
                self._dlqueue_go_back(list(streams.sent))
                return super()._next_data()
            if streams.deliver():
                streams.decide()
                self._try_put_index()
            return data

        def _dlqueue_go_back(self, again: list[Any]) -> None:
            """As written from the batch that was refused: what else is under way is let go."""
            number = self._rcvd_idx - 1
            self._dlqueue_streams.stay()
            with self._dlqueue_streams.drained():
                _let_go(self, super()._next_data)
            _send_again(self, number, again)

    Seeded.__name__, Seeded.__qualname__ = base.__name__, base.__qualname__
    Seeded.__module__ = base.__module__
    return Seeded


def settle(session: Any, iterator: Any, current: Any) -> None:
    """Decides for a pass of a `Seeded` iterator, now or once its workers' trial is over."""
    thread = threading.get_ident()
    streams, gate, meter = iterator._dlqueue_streams, iterator._dlqueue_open.gate, current.meter

    def free() -> None:
        streams.free = True
        if meter.owner() is not None:
            meter.trust(meter.owner())
        session.grow(current, min(gate.planned - gate.limit, session.left(gate.first)))

    def elsewhere() -> str | None:
        same = threading.get_ident() == thread
        return None if same else "it is read by a thread of its own"

    def decide() -> None:
        reason = _against(current.findings()) or elsewhere()
        if reason is None:
            free()
        else:
            streams.stay()
            current.knob, current.tune_at = None, NEVER
            meter.left_alone = meter.kept = reason
            meter.gated = meter.gate_open = meter.most_workers = None

    def fell(reason: str) -> None:
        current.look(time.perf_counter())
        current.workers_now = lambda: streams.workers
        current.knob, current.tune_at = None, NEVER
        meter.fallback, meter.gate_open, meter.most_workers = reason, streams.workers, None

    streams.decide = functools.partial(session.safely, decide)
    streams.on_fall = functools.partial(session.safely, fell)
    if meter.trusts(meter.owner()) and streams.watching and not streams.free:
        free()


def tell(current: Any) -> None:
    """Note what would leave workers alone where nobody asks for others, once it is seen."""
    found = sorted(current.findings(), reverse=True)  # one worker's finding is enough
    if NOT_YET not in found or found[0] > CLEAN:
        current.undecided = False
        current.meter.left_alone = current.meter.left_alone or _against(found)


def _against(findings: list[float]) -> str | None:
    """The reason to go on as written; None: all workers' trials went well."""
    for found in findings:
        if found != CLEAN:
            return REASONS.get(found, "the dataset cannot be looked through")
    return None
