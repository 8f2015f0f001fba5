"""Pinned seeds and user's workers: batches go to other workers as long as none draws.

Torch seeds each of the user's N workers, and batch i is worker i mod N's: what its fetches draw
depends on the batches that it made before. So a pass begins as written. Where the first fetches of
all N workers drew nothing and left the dataset as it was (watch.py), more workers start and batches
go to any of them (verdict.py); each batch is checked where it is made. The first one that draws is
refused there, and the pass goes on as written from that batch on: the N workers' random states are
still those that they would have had, for nothing was drawn since.

So begins a pass of one worker, too, whatever it draws: its dataset may read on in a stream.

A loader whose fetches draw stays as written, for no exact way would gain anything. Batch i + N
draws from the state in which batch i left their worker: it cannot begin before batch i is made, so
that never more than N batches are in the making, and the N workers as written make as many. Fewer
processes could hold the N streams, and would be slower. Without workers a batch draws after the
step before it, and none can be made ahead at all (lazy_workers.py).
"""

from __future__ import annotations

import collections
import contextlib
import itertools
from typing import Any, Callable, Iterator

from ..inspection.guarding import DREW, UnfitError
from .watch import TRIAL_FETCHES, AnyWorkers


class Streams:
    """Dealing of one iterator's batches: `free` to any worker, else as written."""

    def __init__(self, workers: int, draws_matter: bool = True) -> None:
        self.workers = workers  # of the user's
        self.draws_matter = draws_matter
        self.free = False
        self.watching = True  # not decided yet, or free
        self.draining = False
        self.delivered = 0
        self.asks_again_at = 0  # so many delivered: `decide` is called once more
        self.sent: collections.deque[Any] = collections.deque()
        self.decide: Callable[[], None] = lambda: None
        self.on_fall: Callable[[str], None]

    def task(self, index: Any, number: int) -> Any:
        """The task that is sent for the batch of this number."""
        if self.watching:
            self.sent.append(index)
        checked = self.free and self.draws_matter
        return AnyWorkers(index, number % self.workers) if checked else index

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
            self.on_fall(DREW)

    def advance(self, iterator: Any, number: int) -> None:
        """Note the batch of this number, or the error in its place, if either came."""
        if iterator._rcvd_idx > number and self._deliver():
            self.decide()
            iterator._try_put_index()

    def _deliver(self) -> bool:
        """A batch came; True if this is the moment to decide."""
        self.delivered += 1
        if self.watching:
            self.sent.popleft()
        on_trial = self.delivered == TRIAL_FETCHES * self.workers and not self.free
        return on_trial or self.delivered == self.asks_again_at

    def release(self) -> None:
        """To any worker from here on; where draws do not matter no batch is ever made again."""
        self.free = True
        if not self.draws_matter:
            self.watching = False
            self.sent.clear()

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
            if drew is None and isinstance(error, UnfitError):
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
            self._dlqueue_streams = Streams(loader.num_workers, gate.draws_matter)
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
            streams, number = self._dlqueue_streams, self._rcvd_idx
            try:
                data = super()._next_data()
            except UnfitError as error:
                error.__traceback__ = None  # torch's frames hold it, and by it the workers
                streams.on_fall(DREW)
                self._dlqueue_go_back(list(streams.sent))
                return super()._next_data()
            except Exception:  # of the user's own: the loop may go on after it
                streams.advance(self, number)
                raise
            streams.advance(self, number)
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
