"""A pass that its user gave no workers: it may get some, and tells what becomes of them."""

from __future__ import annotations

import functools
import time
import weakref
from typing import Any

from . import rules
from .lazy_workers import LazyWorkers
from .passes.one_pass import NEVER, Pass
from .workers import gated
from .workers.gate import ELSEWHERE, Gate


def open_pass(session: Any, loader: Any, iterator: Any, current: Pass, gate: Gate) -> None:
    """Put the gate's workers behind the iterator; they start after a trial."""
    meter = current.meter  # until the first step: the pass may be another training's
    seeded = rules.pinned_seed(loader) and not session.directive.seeds_may_change
    lazy = LazyWorkers(iterator, loader, gate, seeded)
    lazy.trusted = lambda: current.meter.trusts(current.meter.owner())
    lazy.on_start = functools.partial(_started, session, current, gate)
    lazy.on_leave = functools.partial(_left, current)
    lazy.on_fall = functools.partial(_fell, current)
    # The pass must not keep the workers.
    current.go_home = functools.partial(_went_home, current, weakref.WeakMethod(lazy.go_home))
    lazy.left = session.left
    lazy.trains_here = lambda: current.trained_here() and session.turns.of_one_thread()
    if not lazy.claimed:
        meter.gate_open = 0


def _started(session: Any, current: Pass, gate: Gate, workers: Any, seconds: float) -> None:
    meter = current.meter
    meter.started(seconds, gate.limit)
    current.wait_s -= seconds
    meter.trust()
    current.made.join(gated.pids(workers))
    session.workers.follow(current, workers)


def _left(current: Pass, reason: str) -> None:
    """It stays as its user wrote it; so do its loader's later passes, if that is its own reason."""
    current.knob, current.tune_at = None, NEVER
    meter = current.meter
    meter.left_alone = reason
    if reason != ELSEWHERE:
        meter.kept = reason
    meter.gate_open = meter.most_workers = None


def _went_home(current: Pass, ending: Any) -> None:
    """Its workers end between two batches, and may start again."""
    current.look(time.perf_counter())
    end = ending()
    if end is not None:
        end()
    current.workers_now, current.workers, current.gate = lambda: 0, lambda: None, None
    current.meter.gate_open = 0


def _fell(current: Pass, reason: str) -> None:
    """Its workers failed and are gone."""
    current.look(time.perf_counter())
    current.workers_now, current.knob, current.tune_at = lambda: 0, None, NEVER
    current.gate = None
    meter = current.meter
    meter.fallback, meter.gate_open, meter.most_workers = reason, 0, None
