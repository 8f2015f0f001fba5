"""Gradients' way to the other ranks, as torch's own logger of DistributedDataParallel measures it.

Torch times the first ten synchronised backward passes and every hundredth after them (on CPUs,
where a look costs nothing, it is asked to time more). The logger's lock is held while a backward
pass waits for other ranks, so it is read only by the thread that made the module, and never while
that thread is in a backward pass.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
import weakref
from typing import Any, Callable

from ..buckets.confirmation import Confirmations
from ..buckets.construction import Construction, Constructions
from ..buckets.ready_times import ReadyTimes

NEVER = 1 << 62
FIRST = 3  # iteration; those before it pay for connections and for torch's first buckets
_EACH_UNTIL = 10  # iterations that torch times one by one
_WATCH_EACH = 40  # steps: a module that synchronises less often is read now and then
_RATE = 100  # and one of so many later
_CPU_RATES = (1, 2, 5, 10, 20, 50)  # divisors of _RATE: ranks have times of the same iterations
_READING = 1e-3  # of a step: the most that timing and reading may take
_MOST_SAMPLES, _MOST_BUCKETS = 32, 1024
_NS = 1e-9
_TIMES = (
    ("forward_s", "forward_compute_time"),
    ("backward_s", "backward_compute_time"),
    ("comm_s", "backward_comm_time"),
    ("overlap_s", "backward_compute_comm_overlap_time"),
)


class SyncTimes:
    """Times of the largest DistributedDataParallel of this process; keeps it not alive."""

    def __init__(self) -> None:
        self.due = NEVER  # steps of the optimisers after which the logger is read
        self._module: Callable[[], Any] = lambda: None
        self._bytes = 0
        self._thread = 0
        self._began = (0, 0.0)  # steps before the module's first, and the clock then
        self._rate = _RATE
        self._clear()

    def _clear(self) -> None:
        self._iteration = 0
        self._weight = 0
        self._sums = dict.fromkeys([name for name, _ in _TIMES], 0.0)
        self._count = 0
        self._exposed: dict[int, float] = {}
        self._stride = 1
        self._per_step: float | None = None
        self._early = False  # it is known from iterations that torch times one by one
        self._facts: dict[str, Any] = {}
        self._construction: Construction | None = None
        self._ready: ReadyTimes | None = None

    def made(
        self, module: Any, steps: int, now: float, construction: Construction | None = None
    ) -> None:
        """A DistributedDataParallel was made after so many steps: the largest one is followed."""
        size = sum(p.nelement() * p.element_size() for p in module.parameters() if p.requires_grad)
        if self._module() is not None and size <= self._bytes:
            return
        self._clear()
        self._module, self._bytes = weakref.ref(module), size
        self._thread, self._began = threading.get_ident(), (steps, now)
        self._rate = _RATE
        self.due = 0
        self._construction = construction
        if construction is not None and construction.rank == 0:
            self._ready = ReadyTimes(module)

    def look(self, steps: int, now: float) -> None:
        """Read the logger after a step, and say when to read it again."""
        self.due = NEVER  # and so it stays should it fail
        module = self._module()
        if module is None or not self._may_read():
            self.due = NEVER if module is None else steps + _RATE
            return
        began, done = time.perf_counter(), steps - self._began[0]
        self._take(module._get_ddp_logging_data(), done)
        if self._iteration < _EACH_UNTIL and done < _WATCH_EACH:
            self.due = steps + 1
            return
        if self._rate == _RATE and self._iteration:
            self._ask_for_more(module, now, time.perf_counter() - began)
        self.due = steps + self._rate - (done - 1) % self._rate

    def _may_read(self) -> bool:
        in_backward = sys.modules["torch"]._C._current_graph_task_id() != -1
        return threading.get_ident() == self._thread and not in_backward

    def _ask_for_more(self, module: Any, now: float, read_s: float) -> None:
        """On CPUs: as many timed passes as cost next to nothing."""
        parameter = next(module.parameters(), None)
        rate = rate_for((now - self._began[1]) / self._iteration, read_s)
        if rate < _RATE and parameter is not None and parameter.device.type == "cpu":
            self._rate = rate
            module._set_ddp_runtime_logging_sample_rate(rate)

    def _take(self, data: dict[str, Any], steps: int) -> None:
        """Add the latest timed iteration, unless it is known, or a cold one."""
        iteration = int(data.get("iteration") or 0)
        if steps > 0 and (iteration < _EACH_UNTIL or not self._early):
            self._per_step = (iteration + 1) / steps  # torch tells of one when the next began
            self._early = iteration < _EACH_UNTIL
        if iteration <= self._iteration:
            return
        weight = iteration - max(self._iteration, FIRST - 1)
        self._iteration = iteration
        times = [(name, (data.get(key) or 0) * _NS) for name, key in _TIMES]
        if iteration < FIRST or not data.get("backward_comm_time"):
            return
        self._count += 1
        self._weight += weight
        for name, seconds in times:
            self._sums[name] += weight * seconds
        self._keep(iteration, dict(times))
        self._facts = {"bucket_bytes": _buckets(data), "backend": data.get("backend_name")}
        self._facts["comm_hook"] = data.get("comm_hook") or None

    def _keep(self, iteration: int, times: dict[str, float]) -> None:
        """Hold the exposed time of some iterations: the same ones in all ranks."""
        if iteration % self._stride == 0:
            exposed_s = max(0.0, times["comm_s"] - times["overlap_s"])
            self._exposed[iteration] = round(exposed_s, 6)
        if len(self._exposed) > _MOST_SAMPLES:
            self._stride *= 2
            kept = self._exposed.items()
            self._exposed = {one: seconds for one, seconds in kept if one % self._stride == 0}

    def row(self) -> dict[str, Any] | None:
        """The summary's part; None: no pass was timed."""
        if not self._count:
            return None
        return {
            **{name: total / self._weight for name, total in self._sums.items()},
            "steps": self._count,
            "per_step": self._per_step,
            **self._facts,
            "iterations": [*self._exposed],
            "exposed_s": [*self._exposed.values()],
            "buckets": self._bucket_row(),
        }

    def _bucket_row(self) -> dict[str, Any] | None:
        """Return what the next submission's buckets rest on; ready times are of one rank alone."""
        if self._construction is None:
            return None
        groups = self._ready.groups() if self._ready is not None else []
        return {
            **self._construction.row(),
            "ready_bytes": [size for size, _ in groups],
            "ready_s": [round(before_s, 6) for _, before_s in groups],
        }


def rate_for(step_s: float, read_s: float) -> int:
    """One pass of so many is timed, where torch's part takes as long as reading it does."""
    fitting = (rate for rate in _CPU_RATES if 2 * read_s <= _READING * rate * step_s)
    return next(fitting, _RATE)


def _buckets(data: dict[str, Any]) -> list[int]:
    """Bytes of the buckets in use: torch rebuilds them once, in the order of the gradients."""
    sizes = str(data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes") or "")
    return [int(size) for size in sizes.split(", ") if size.isdigit()][:_MOST_BUCKETS]


def watch(
    kind: Any, made: Callable[[Any, Any], None], constructions: Constructions | None = None
) -> None:
    """Call `made(module, construction)` after each construction of a `kind`.

    Its failures are not the job's. Before it, its arguments may become the submission's.
    """
    original = kind.__init__
    constructions = constructions or Constructions()
    arranged = constructions.arranged
    confirmations = Confirmations(constructions.agreement)
    if constructions.request.caps_kib:
        confirmations.follow(kind)

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **options: Any) -> None:  # noqa: N807 - it takes its place
        args, options, construction = arranged(original, (self, *args), options)
        original(*args, **options)
        try:
            if construction is not None:
                confirmations.expect(self, construction)
            made(self, construction)
        except Exception:  # noqa: S110 - the job's own module is there
            pass

    kind.__init__ = __init__
