"""One process's measuring: its loaders, the passes under way, the summary."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from typing import Any, Callable, cast

from . import gated, growth, lent, machine, rules, streams, summary
from .autotune import NEVER
from .directive import Directive
from .gate import Gate
from .knob import MOST_TUNED, Knob
from .lazy_workers import LazyWorkers
from .lending.lent_worker import kill_all
from .phases import LoaderMeter, Pass
from .tuning import Tuner
from .turns import Turns

_WRITE_AFTER_S = (1.0, 2.0)  # then every
_WRITE_LIVE_AFTER_S = (0.5, 1.0, 1.5, 2.0)
_WRITE_EVERY_S = 5.0
_WRITE_LIVE_S = 1.0
_LEAST_PAUSE_S, _MOST_PAUSE_S = 1.0, 60.0  # between writings at the ends of passes
_PAUSE_TIMES = 200.0  # what the last writing took: renaming on a busy disk takes 20 ms
_MAX_LOADERS = 32
_ELSEWHERE = "the workers are with another loader"
_FOREIGN = "the loader is another library's"
_MEMORY_TIMES, _MEMORY_EVERY_S = 100.0, 5.0  # looks at memory: 30 ms each in a large process
_MEMORY_SHARE = 0.8  # of the room that is left: batches under way need some, too


class Session:
    """Lives from the first DataLoader or optimiser's step to the end of the process."""

    def __init__(self, dataloader: Any, directive: Directive, turns: Turns) -> None:
        self.dataloader = dataloader
        self.turns = turns
        self.directive = directive
        self.can_gate = rules.understood(dataloader)
        self.knob = Knob(self)
        self.faults: list[str] = []
        self.meters: list[LoaderMeter] = []
        self._of: dict[int, LoaderMeter] = {}  # by the owner's id
        self._lazy_workers: weakref.WeakSet[LazyWorkers] = weakref.WeakSet()
        self._iterators: weakref.WeakSet[Any] = weakref.WeakSet()  # the gated ones
        self._next_write = 0.0  # a pass that ends earlier is written later
        # With a controller at work, differences of two summaries are its measurement.
        self._write_every_s = _WRITE_LIVE_S if directive.is_controlled else _WRITE_EVERY_S
        self._facts = summary.process_facts()
        delays = _WRITE_LIVE_AFTER_S if directive.is_controlled else _WRITE_AFTER_S
        self._write_at = [time.perf_counter() + delay for delay in delays]
        atexit.register(self.finish)

    # -- one loader ------------------------------------------------------------------------

    def meter(self, loader: Any) -> LoaderMeter | None:
        """The loader's numbers; one that is made again each epoch continues its predecessor's."""
        known = self._of.get(id(loader))
        if known is not None and known.owner() is loader:
            return known
        return self._new_meter(loader, _facts(loader, self.dataloader), _rows(loader))

    def _new_meter(self, owner: Any, facts: dict[str, Any], rows: int | None) -> LoaderMeter | None:
        for meter in self.meters:
            if meter.owner() is None and meter.facts == facts:
                return self._give(meter, owner)
        if len(self.meters) >= _MAX_LOADERS:
            return None
        self.meters.append(LoaderMeter(len(self.meters), facts, self.directive.run_dir))
        self.meters[-1].rows_in_all = rows
        return self._give(self.meters[-1], owner)

    def _give(self, meter: LoaderMeter, owner: Any) -> LoaderMeter:
        for key in [key for key, other in self._of.items() if other is meter]:
            del self._of[key]
        meter.owner = weakref.ref(owner)
        self._of[id(owner)] = meter  # an id may be that of an object that is gone
        return meter

    def gate(self, loader: Any, meter: LoaderMeter) -> Gate | None:
        """The gate for a pass that is about to begin; None: it is the user's own.

        A loader that nobody asks to move tells all the same what would leave it alone.
        """
        if not self.directive.gates:
            meter.left_alone = self._refusal(loader)
        if not self.directive.gates or meter.fallback:
            return None
        running: Any = getattr(loader, "_iterator", None)  # persistent workers, kept from last time
        if getattr(running, "_dlqueue_open", None) is not None:
            return cast("Gate", running._dlqueue_open.gate)
        meter.left_alone = meter.kept or self._refusal(loader)
        own = int(loader.num_workers)
        if self.directive.tunes and not meter.left_alone:
            self._tune(meter, own, _length(loader._index_sampler))
        gate = None if meter.left_alone else self._new_gate(meter, own)
        if gate is None:
            meter.left_alone = meter.left_alone or _ELSEWHERE
            meter.gate_open = meter.most_workers = None
        elif loader.num_workers:
            gate.own, gate.drawing = int(loader.num_workers), rules.drawing(loader)
            if rules.keeps_streams(loader, self.directive):
                gate.keeps_streams, gate.planned, gate.limit = True, gate.limit, gate.own
        return gate

    def _tune(self, meter: LoaderMeter, own: int, batches: int | None) -> None:
        """Give the loader a tuner: it begins where the submission says, else the user."""
        meter.pass_batches = batches
        if meter.tuner is None:
            wanted = self.directive.num_workers
            cores = machine.cores() / machine.ranks_here()
            meter.tuner = Tuner(own, own if wanted is None else wanted, cores)
            meter.tuner.start_each_s = meter.start_each_s

    def guard(self, loader: Any, gate: Gate | None) -> streams.Watch | None:
        """The look at the first fetches of a loader's new workers; None: none."""
        if not self.can_gate or not rules.keeps_streams(loader, self.directive):
            return None
        return streams.Watch(closely=gate is not None)

    def _new_gate(self, meter: LoaderMeter, own: int) -> Gate | None:
        """A gate with as many workers as are left and fit; None: not even the user's `own` are."""
        wanted = self.directive.num_workers if meter.tuner is None else meter.tuner.count
        first = own if wanted is None else wanted
        left = self.left(first)
        if left < (max(own, 1) if wanted is None else 1):
            return None
        private = machine.private_bytes() or 0
        gate = Gate(self.directive.gate_path, left, min(first, left))
        least = max(own, 1) if meter.worker_private else max(own, gate.first, 1)
        meter.most_workers = max(min(least, left), self._fitting(left, meter, private))
        asked = max(0 if meter.tuner else own, gate.first, gate.wanted(), 1)
        ahead = meter.worth_starting() if self.directive.starts_ahead else 0
        gate.limit = min(meter.most_workers, max(asked, ahead))
        self._bound_memory(gate, meter, own, private)
        return gate

    def left(self, first: int = 0) -> int:
        """Workers that another loader of this process may still start."""
        tuned = MOST_TUNED if self.directive.tunes or self.directive.borrows else 0
        return max(first, self.directive.max_workers or tuned) - self._taken()

    def _fitting(self, most: int, meter: LoaderMeter, private: int) -> int:
        """As many of `most` workers as memory holds.

        Before one was measured, it may come to hold as much as this process does.
        """
        room = machine.room_bytes(private)
        per_worker = meter.worker_private or private
        return (
            most
            if room is None or not per_worker
            else min(most, int(room * _MEMORY_SHARE // per_worker))
        )

    def _taken(self) -> int:
        """Workers of the directive that live, or are promised to a pass that has begun."""
        promised = sum(lazy.gate.limit for lazy in self._lazy_workers if lazy.due_to_start())
        return promised + sum(gated.holds(iterator) for iterator in self._iterators)

    def _refusal(self, loader: Any) -> str | None:
        if not self.can_gate:
            return "this torch's DataLoader is not one the probe knows"
        return rules.left_alone(loader, self.dataloader, self.directive)

    def _bound_memory(
        self, gate: Gate, meter: LoaderMeter, own: int, private: int | None = None
    ) -> None:
        """Opens as many workers as fit; before one was measured, no more than the user's or one."""
        if gate.limit <= own:
            gate.ceiling = gate.limit
            return
        if private is None:
            private = machine.private_bytes() or 0
        per_worker, now = meter.worker_private, meter.gate_open or 0
        room = machine.room_bytes(private + per_worker * now)
        if room is None:
            gate.ceiling = gate.limit
        elif per_worker:
            gate.ceiling = max(own, 1, now + int(room * _MEMORY_SHARE // per_worker))
        else:
            gate.ceiling = max(own, 1)

    # -- one pass --------------------------------------------------------------------------

    def watch(self, loader: Any, iterator: Any, meter: LoaderMeter, gate: Gate | None) -> None:
        """Measures the pass that `iterator` is about to make, and gates it."""
        current = self._begin(iterator, meter)
        if getattr(iterator, "_dlqueue_open", None) is not None:
            self._follow(current, iterator)
            if iterator._dlqueue_open.gate.keeps_streams:
                streams.settle(self, iterator, current)
        elif gate is not None and int(loader.num_workers) == 0:
            self._open(loader, iterator, current, gate)
        if gate is not None and meter.tuner is not None:
            current.knob = gate
            meter.tuner.begin(current, self.knob)

    def tune(self, current: Pass, now: float) -> None:
        """After the batches that the pass's tuner waits for."""
        current.tune_at = NEVER  # and so it stays should the tuner fail
        if current.meter.tuner is not None and current.knob is not None:
            current.meter.tuner.tick(current, self.knob, now)

    def adopt(self, iterator: Any) -> None:
        """Measures the pass of an iterator of torch's that another library's loader made."""
        facts = _facts_of_iterator(iterator, self.dataloader)
        meter = self._new_meter(iterator, facts, None)
        if meter is not None:
            meter.left_alone = _FOREIGN
            self._begin(iterator, meter).counts_rows = True

    def _begin(self, iterator: Any, meter: LoaderMeter) -> Pass:
        current = Pass(iterator, meter, gated.pids(iterator))
        current.counts_rows = current.fetches_batches = not iterator._auto_collation
        meter.begin(current)
        iterator.__dict__["_dlqueue"] = current
        fetcher = getattr(iterator, "_dataset_fetcher", None)
        if fetcher is not None:
            fetcher.__dict__["_dlqueue"] = current.home
        own = int(iterator._num_workers)
        current.workers_now = lambda: own
        watched = isinstance(iterator.__dict__.get("_dlqueue_guard"), streams.Watch)
        current.undecided = watched and not self.directive.gates
        return current

    def _open(self, loader: Any, iterator: Any, current: Pass, gate: Gate) -> None:
        meter = current.meter
        seeded = rules.pinned_seed(loader) and not self.directive.seeds_may_change
        lazy = LazyWorkers(iterator, loader, gate, seeded, not meter.trusts(loader))

        self._lazy_workers.add(lazy)

        def started(workers: Any, seconds: float) -> None:
            meter.started(seconds, gate.limit)
            current.wait_s -= seconds
            if (owner := meter.owner()) is not None:
                meter.trust(owner)
            current.join(gated.pids(workers))
            self._follow(current, workers)

        def left(reason: str) -> None:
            current.knob, current.tune_at = None, NEVER
            meter.left_alone = meter.kept = reason
            meter.gate_open = meter.most_workers = None

        ending = weakref.WeakMethod(lazy.go_home)  # the pass must not keep the workers

        def home() -> None:
            current.look(time.perf_counter())
            end = ending()
            if end is not None:
                end()
            current.workers_now, current.workers, current.gate = lambda: 0, lambda: None, None
            meter.gate_open = 0

        def fell(reason: str) -> None:
            current.look(time.perf_counter())
            current.workers_now, current.knob, current.tune_at = lambda: 0, None, NEVER
            current.gate = None  # its workers are gone
            meter.fallback, meter.gate_open, meter.most_workers = reason, 0, None

        lazy.on_start, lazy.on_leave, lazy.on_fall = started, left, fell
        current.go_home = home
        lazy.left = self.left
        if not lazy.claimed:
            meter.gate_open = 0

    def _follow(self, current: Pass, workers: Any) -> None:
        gate = workers._dlqueue_open.gate
        self._iterators.add(workers)
        current.look(time.perf_counter())
        current.due = 0.0  # with the first batch: a worker's memory is known then
        current.meter.gated = gate.limit
        current.workers_now = gate.open
        current.gate = gate
        current.workers = weakref.ref(workers)
        if current.meter.tuner is not None and not current.meter.tuner.settled:
            growth.remember(workers)

    def grow(self, current: Pass, count: int, begin: Callable[[], None] | None = None) -> int:
        """Start up to `count` more workers for a pass that runs; return how many started.

        The gate can open for them at once. 0 where workers cannot start within a pass.
        """
        workers, gate = current.workers(), current.gate
        if workers is None or gate is None:
            return 0
        began = time.perf_counter()
        pids = growth.add_workers(workers, count, begin)
        if pids:
            current.join(pids)
            lent_count = workers._dlqueue_open.lent_count()
            gate.limit = current.meter.gated = len(workers._workers) - lent_count
            self._bound_memory(gate, current.meter, current.meter.facts["user_num_workers"])
            current.meter.started(time.perf_counter() - began, len(pids))
        return len(pids)

    def _follow_loan(self, current: Pass) -> None:
        """Lent workers of a pass that runs, as the node's file says and memory allows."""
        workers = current.workers()
        if workers is None:
            return
        if workers._dlqueue_open.lent is None:
            workers._dlqueue_open.lent = lent.LentWorkers(self.directive.lent_path)
        each, batch = current.meter.worker_private, current.batch_bytes()

        def room() -> int:
            private = (machine.private_bytes() or 0) + each * len(workers._workers)
            return lent.room(private, each, batch, workers._prefetch_factor)

        current.join(workers._dlqueue_open.lent.look(workers, room))
        workers._dlqueue_open.gate.lent = len(workers._dlqueue_open.lent.active)

    def look(self, current: Pass, now: float) -> None:
        """Five times a second while a pass runs: mean workers, memory, the summary."""
        current.look(now)
        if current.undecided:
            streams.tell(current)
        if current.gate is not None:
            meter = current.meter
            known, meter.gate_open = meter.worker_private, current.gate.open()
            meter.worker_private = max(known, current.private_bytes())
            self._follow_loan(current)
            if now >= meter.memory_due or not known:
                self._bound_memory(current.gate, meter, meter.facts["user_num_workers"])
                took_s = time.perf_counter() - now
                meter.memory_due = now + min(_MEMORY_TIMES * took_s, _MEMORY_EVERY_S)
        self.write_if_due(now)

    def write_if_due(self, now: float) -> None:
        """Write the summary of a process that works, every few seconds."""
        if now >= self._write_at[0]:
            self._write_at[:] = self._write_at[1:] or [now + self._write_every_s]
            self.write(finished=False)
            if not self.directive.is_controlled:
                self._write_at[0] = max(self._write_at[0], self._next_write)

    def ended(self, current: Pass) -> None:
        """Add a pass that came to its end; write the summary if enough time is between."""
        now = time.perf_counter()
        current.look(now)
        if current.undecided:  # the whole pass was shorter than the time between two looks
            self.safely(streams.tell, current)
        current.over = True
        if current.meter.tuner is not None and current.knob is not None:
            self.safely(current.meter.tuner.end, current, self.knob)
        current.meter.end(current)
        if now >= self._next_write:
            self.write(finished=False)

    # -- the summary -----------------------------------------------------------------------

    def write(self, finished: bool) -> None:
        """Writes the summary; a full disk or a folder that is gone leaves the job alone."""
        began = time.perf_counter()
        self.turns.credit()
        rows = [meter.row() for meter in self.meters]
        clock = self.turns.steps
        measured = {
            "optimizer": clock.row(),
            "communication": clock.sync.row(),
            "loaders": rows,
        }
        body = summary.document(self._facts, self.directive, measured, self.faults, finished)
        try:
            summary.write(self.directive.run_dir, body)
        except OSError as error:
            self.fault(error)
        now = time.perf_counter()
        pause_s = max(_LEAST_PAUSE_S, _PAUSE_TIMES * (now - began))
        self._next_write = now + min(pause_s, _MOST_PAUSE_S)

    def started(self, now_s: float) -> None:
        """The process began at this Unix time, before its first DataLoader or step."""
        self._facts["started_s"] = now_s

    def finish(self) -> None:
        """At Python's end."""
        if self._facts["pid"] == os.getpid():
            self.safely(self.write, True)
            for meter in self.meters:
                meter.forget_workers()
            kill_all()

    def fault(self, error: BaseException) -> None:
        """Note each of the probe's own faults once."""
        clause = f"{type(error).__name__}: {error}"[:200]
        if clause not in self.faults and len(self.faults) < 8:
            self.faults.append(clause)

    def safely(self, act: Callable[..., Any], *args: Any) -> Any:
        """`act(*args)`; None if it fails, for the probe's faults are not the job's."""
        try:
            return act(*args)
        except Exception as error:  # see above
            self.fault(error)
            return None


def _facts(loader: Any, dataloader: Any) -> dict[str, Any]:
    is_map = loader._dataset_kind == dataloader._DatasetKind.Map
    return {
        "dataset": type(loader.dataset).__name__[:80],
        "style": "map" if is_map else "iterable",
        "batch_size": loader.batch_size or getattr(loader.batch_sampler, "batch_size", None),
        "length": _length(loader.dataset),
        "user_num_workers": int(loader.num_workers),
        "persistent": bool(loader.persistent_workers),
    }


def _facts_of_iterator(iterator: Any, dataloader: Any) -> dict[str, Any]:
    dataset = iterator._dataset
    return {
        "dataset": type(dataset).__name__[:80],
        "of": id(dataset),  # names tell two of a library's loaders not apart
        "style": "map" if iterator._dataset_kind == dataloader._DatasetKind.Map else "iterable",
        "batch_size": None,
        "length": _length(dataset),
        "user_num_workers": int(iterator._num_workers),
        "persistent": bool(iterator._persistent_workers),
    }


def _rows(loader: Any) -> int | None:
    """Samples of a whole pass; None if it is not simply the sampler's length."""
    if loader.batch_size is None or loader.drop_last:
        return None
    return _length(loader.sampler)


def _length(sized: Any) -> int | None:
    try:
        return len(sized)
    except Exception:  # the user's own __len__, or none
        return None
