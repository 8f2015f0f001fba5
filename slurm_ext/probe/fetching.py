"""Cost of fetching: wall and CPU seconds, samples, bytes; measured in the process that does it.

A worker keeps its totals in a small mapped file, `fetch-<pid>`, which the training process reads:
that works under fork and spawn, costs no system call, and survives a killed worker.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import sys
import time
from itertools import islice
from typing import Any, Callable, Iterable, Iterator

from . import machine
from .stalls import fetch_file
from .stalls.fetch_times import FetchTimes

_BYTES_EVERY_S = 0.3  # /proc/self/io costs up to 80 microseconds
_QUEUED_EVERY_S = 0.1  # schedstat costs 4 microseconds, and 40 after a step that emptied the caches
_MEMORY_EVERY_S = 5.0  # smaps_rollup costs milliseconds
_SHORT_S = 0.0002  # shorter fetches are timed only now and then, once
_SKIP_AFTER = 64  # so many were timed,
_SKIP = 15  # one in sixteen
_MOST_PARTS = 16  # of a batch, that its samples are counted by
_PLAIN = (int, float, bool, str, bytes, type(None))


DREW = "fetching draws random numbers in a job with pinned seeds"

# Set while workers are started that are checked: forked children find it.
guard: Guard | None = None


@contextlib.contextmanager
def guarded(by: Guard | None) -> Iterator[Guard | None]:
    """Meanwhile workers that start are checked."""
    global guard
    guard = by
    try:
        yield by
    finally:
        guard = None


class UnfitError(RuntimeError):
    """Raised in a worker: this dataset's batches cannot be made there without a difference."""


class FetchMeter:
    """Totals of one process's fetches; bytes are taken now and then and scaled to all samples.

    In the training process the CPU is this thread's: torch's other threads spin between tensors.
    """

    clock = staticmethod(time.thread_time)

    def __init__(self) -> None:
        self.skip = 0  # fetches that go by untimed from now on; the caller counts down
        self._skipped = 0
        self.may_skip = True
        self.samples = 0
        self.batches = 0
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self._queued_s = 0.0  # of the fetches around which the kernel was asked,
        self._queued_wall_s = 0.0  # which took so long
        self._next_queued = 0.0
        self._bytes = 0
        self._bytes_samples = 0
        self._next_bytes = 0.0
        self.times = FetchTimes()
        self._latest_bin = 0

    def fetch(self, original: Callable[..., Any], fetcher: Any, index: Any) -> Any:
        """One fetch, timed; what fails in timing it is not the job's affair."""
        began = time.perf_counter()
        read = machine.bytes_read() if began >= self._next_bytes else None
        queued = machine.queued_s() if began >= self._next_queued else None
        began, cpu = time.perf_counter(), self.clock()
        data = original(fetcher, index)
        cpu, now = self.clock() - cpu, time.perf_counter()
        try:  # contextlib.suppress takes longer than what it protects
            self._add(now - began, cpu, len(index) if fetcher.auto_collation else 1)
            if queued is not None:
                self._add_queued(machine.queued_s() - queued, now - began, now)
            if read is not None:
                self._add_bytes(read, len(index) if fetcher.auto_collation else 1, now)
        except Exception:  # noqa: S110 - the job's own batch is there
            pass
        return data

    def _add(self, wall: float, cpu: float, samples: int) -> None:
        self.samples += samples
        self.batches += 1
        self.cpu_s += cpu
        self.wall_s += wall
        if self.may_skip and wall < _SHORT_S and self.batches > _SKIP_AFTER:
            self.skip = _SKIP
            self._skipped += _SKIP
        self._latest_bin = self.times.add(wall, 1 + self.skip)

    def _add_queued(self, queued: float, wall: float, now: float) -> None:
        self._queued_s += queued
        self._queued_wall_s += wall
        self._next_queued = now + _QUEUED_EVERY_S

    def _add_bytes(self, before: int, samples: int, now: float) -> None:
        self._bytes += (machine.bytes_read() or before) - before
        self._bytes_samples += samples
        self._next_bytes = now + _BYTES_EVERY_S

    def totals(self) -> tuple[float, ...]:
        """The totals so far, in the form of `read_totals`; untimed fetches count like the timed."""
        batches = self.batches + self._skipped - self.skip
        scale = batches / self.batches if self.batches else 0.0
        each = self.samples / self._bytes_samples if self._bytes_samples else 0.0
        asked = self.wall_s / self._queued_wall_s if self._queued_wall_s else 0.0
        return (
            self.samples * scale,
            self.batches * scale,
            self.wall_s * scale,
            self.cpu_s * scale,
            self._bytes * each * scale,
            0.0,
            self._queued_s * asked * scale,
        )


class WorkerMeter(FetchMeter):
    """A worker's totals, mapped into a file for its parent; `guard` also checks each batch."""

    clock = staticmethod(time.process_time)

    def __init__(self, run_dir: str, guard: Guard | None, memory_after: int = 1) -> None:
        super().__init__()
        self.memory_after = memory_after  # fetches; later ones do not hold up the epoch's start
        self.guard = guard
        self.may_skip = guard is None or not guard.refuses  # such a guard looks at every batch
        self.private = 0.0
        self._next_memory = 0.0
        self._map: mmap.mmap | None = None
        with contextlib.suppress(OSError, ValueError):
            self._map = fetch_file.mapped(fetch_file.path_of(run_dir, os.getpid()))

    def fetch(self, original: Callable[..., Any], fetcher: Any, index: Any) -> Any:
        """One fetch, timed, checked and published."""
        state = self.guard.before(fetcher) if self.guard else None
        data = super().fetch(original, fetcher, index)
        if self.guard:
            self.guard.after(state, data)
        try:  # noqa: SIM105 - as above
            self._publish()
        except Exception:  # noqa: S110 - as above
            pass
        return data

    def _publish(self) -> None:
        if self._map is None:
            return
        now = time.perf_counter()
        if now >= self._next_memory and self.batches >= self.memory_after:
            self.private = float(machine.private_bytes() or 0)
            self._next_memory = now + _MEMORY_EVERY_S
        totals = self.totals()
        found = self.guard.finding if self.guard else 0.0
        shown = (*totals[:5], self.private, totals[6], found)
        fetch_file.publish(self._map, shown, self.times, self._latest_bin)


class Guard:
    """Refuses what a worker would change: a seeded job's draws, batches that cannot travel."""

    refuses = True
    finding = 0.0  # for the training process to read, among a worker's totals

    def __init__(self, seeded: bool) -> None:
        self.seeded = seeded

    def before(self, fetcher: Any) -> Any:
        """The random generators' state, where it matters."""
        del fetcher
        return random_state() if self.seeded else None

    def after(self, state: Any, data: Any) -> None:
        """Raises UnfitError where this batch must be made in the training process."""
        if self.seeded and not same_state(state, random_state()):
            raise UnfitError(DREW)
        if not _travels(data):
            _pickle(data)


def random_state() -> tuple[Any, ...]:
    """The state of the global generators of Python, torch and, where it is loaded, numpy."""
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy.random")
    theirs: Any = ()
    if numpy is not None:
        kind, keys, *rest = numpy.get_state()
        theirs = (kind, keys.tobytes(), *rest)
    return (random.getstate(), theirs, torch.get_rng_state())


def set_random_state(state: tuple[Any, ...]) -> None:
    """Take up a `random_state` again; a numpy that came later keeps its own."""
    ours, theirs, torchs = state
    random.setstate(ours)
    if theirs:
        numpy = sys.modules["numpy"]
        kind, keys, *rest = theirs
        numpy.random.set_state((kind, numpy.frombuffer(keys, numpy.uint32), *rest))
    sys.modules["torch"].set_rng_state(torchs)


def same_state(before: Any, after: Any) -> bool:
    """True if no random number was drawn between two `random_state()`s."""
    torch = sys.modules["torch"]
    return bool(before[:2] == after[:2] and torch.equal(before[2], after[2]))


def _travels(data: Any) -> bool:
    """True if a batch is made only of objects that surely reach another process."""
    kind = type(data)
    if kind in _PLAIN:
        return True
    if kind in (list, tuple):
        return all(map(_travels, data))
    if kind is dict:
        return all(map(_travels, data)) and all(map(_travels, data.values()))
    if kind is sys.modules["torch"].Tensor:
        return bool(data.device.type == "cpu" and not data.requires_grad and not data.is_sparse)
    return False


def tensor_bytes(data: Any, depth: int = 4) -> int:
    """Bytes of the tensors in a batch, as far as plain containers hold them."""
    if isinstance(data, sys.modules["torch"].Tensor):
        return int(data.element_size() * data.nelement())
    if depth and isinstance(data, (list, tuple, dict)):
        values = data.values() if isinstance(data, dict) else data
        return sum(tensor_bytes(one, depth - 1) for one in values)
    return 0


def rows(batch: Any) -> int | None:
    """Samples by the first dimension on which all parts agree; None where they do not.

    A number beside a tensor is the label of one sample, and vectors alone may be one sample's
    features or tokens: both are None, which counts as one sample.
    """
    graphs = getattr(batch, "num_graphs", None)  # torch_geometric's batches are one large graph
    if isinstance(graphs, int):
        return graphs
    if isinstance(batch, list) and batch and isinstance(batch[0], (tuple, dict)):
        return len(batch)  # samples that nobody put together
    sizes = [_size_of(part) for part in islice(_parts_of(batch), _MOST_PARTS)]
    first = {size for size, _ in sizes if size is not None}
    several = any(whole for _, whole in sizes)
    return first.pop() or None if several and len(first) == 1 else None


def _parts_of(batch: Any) -> Iterable[Any]:
    if isinstance(batch, (list, tuple)):
        return batch
    return batch.values() if hasattr(batch, "values") and hasattr(batch, "keys") else (batch,)


def _size_of(part: Any) -> tuple[int | None, bool]:
    """First dimension (None: it has none to tell), and True if a row is more than a number."""
    shape = getattr(part, "shape", None)
    if isinstance(shape, tuple):
        return (int(shape[0]), len(shape) > 1) if shape else (0, False)
    if isinstance(part, (list, tuple)):
        return len(part), bool(part) and not isinstance(part[0], (int, float))
    return (0, False) if isinstance(part, (int, float)) else (None, False)


def _pickle(data: Any) -> None:
    """Raise UnfitError if a batch cannot be pickled; in the queue's thread that hangs the job."""
    from multiprocessing.reduction import ForkingPickler

    try:
        ForkingPickler.dumps(data)
    except Exception as error:
        raise UnfitError(f"a batch cannot be sent from a worker: {error}") from None
