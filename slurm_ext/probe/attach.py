"""Puts the probe into torch: a few methods, patched once, and a hook, as the job imports torch.

Each patched method does what it did before; the added part may fail without the job noticing.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import Any

from .batch_clock import adopting_iter, noted_new, noted_reset, timed_del, timed_next
from .counters import applied, backward, data_ranks, frameworks, steps
from .directive import Directive
from .fetch_clock import measured_fetch
from .pass_starts import watched_iter
from .process import ProbeState, begin_anew, note, write_if_due
from .stalls import gradient_sync

__all__ = ["note"]
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # either is torch's number of threads


def attach(dataloader: Any) -> None:
    """Patches torch.utils.data.dataloader, which has just been imported."""
    note(dataloader)
    begin_anew(dataloader)
    _keep_threads(ProbeState.directive or Directive())
    fetch = dataloader._utils.fetch
    for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        kind.fetch = measured_fetch(kind.fetch, dataloader._utils.worker)
    loader = dataloader.DataLoader
    loader.__iter__ = watched_iter(loader.__iter__, dataloader)
    base = dataloader._BaseDataLoaderIter
    base.__new__ = noted_new
    base._reset = noted_reset(base._reset)
    base.__next__ = timed_next(base.__next__, dataloader)
    base.__iter__ = adopting_iter(base.__iter__, dataloader)
    several = dataloader._MultiProcessingDataLoaderIter
    several.__del__ = timed_del(several.__del__)


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


def differentiate(autograd: Any) -> None:
    """Counts backward passes, for programs without an optimiser; `autograd` is torch's module."""
    backward.follow_passes(autograd, _passed)


def follow_modes(modules: Any) -> None:
    """Leaves validations out of the steps' clock; `modules` is torch.nn.modules.module."""
    steps.follow_turns(modules.Module, _turn)


def _turn(trains: bool, now: float) -> None:
    ProbeState.turns.turn(trains, now)


def synchronise(distributed: Any) -> None:
    """Follows gradients to other ranks; `distributed` is torch.nn.parallel.distributed."""
    gradient_sync.watch(distributed.DistributedDataParallel, _made)


def shard(module: Any) -> None:
    """Learns over how many ranks FSDP averages; `module` has its class, or its groups'."""
    data_ranks.follow_sharding(module, _averages)


def _averages(ranks: int) -> None:
    ProbeState.turns.steps.data_ranks.note(ranks)


def _begin(model: Any, now: float) -> None:
    ProbeState.turns.steps.begin(model, now)


def _made(module: Any, construction: Any) -> None:
    clock = ProbeState.turns.steps
    _averages(module.process_group.size())
    clock.sync.made(module, clock.total, time.perf_counter(), construction)


def _passed(now: float) -> None:
    if not ProbeState.turns.steps.total:
        ProbeState.turns.steps.passes.add(now)
        write_if_due(now)


def _stepped(optimiser: Any, now: float) -> None:
    ProbeState.turns.unseen = None
    _count(optimiser, now)


def _count(optimiser: Any, now: float) -> None:
    ProbeState.turns.count(optimiser, now)
    write_if_due(now)
