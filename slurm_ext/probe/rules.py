"""Which loaders are set, and why the others are left alone. Looks only; changes nothing."""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any

from .directive import Directive
from .inspection import own_streams, samplers, worker_numbers
from .inspection.fetch_trial import ASKS
from .program.program_code import names_of_a_fetch

MIN_BATCHES = 8
PINNED_SEEDS_BELOW = 1 << 32  # torch's own generator starts from a far larger random number
_AS_MADE = 67280421310721  # the seed of every new torch.Generator()
# What a subclass may not define: torch's iterators would see something else in it. Its own
# `__iter__` may add to what torch's gives.
_HARMFUL = frozenset(
    ("__getattribute__", "__getattr__", "__delattr__", "__new__", "__slots__", "__del__")
)
_HARMLESS = frozenset(
    (
        "__init__",
        "__iter__",
        "__len__",
        "__module__",
        "__doc__",
        "__qualname__",
        "__parameters__",
        "__orig_bases__",
        "__annotations__",
        "__dict__",
        "__weakref__",
        "__firstlineno__",
        "__static_attributes__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
    )
)
_NEEDED = {  # the internals that the gate leans on: method, and the names its code must use
    "__init__": ("_index_queues", "_workers", "_reset"),
    "_reset": ("_worker_queue_idx_cycle", "_send_idx", "_rcvd_idx", "_try_put_index"),
    "_try_put_index": ("_worker_queue_idx_cycle", "_next_index", "_send_idx", "_prefetch_factor"),
    "_next_data": ("_rcvd_idx", "_task_info", "_get_data", "_process_data"),
    "_process_data": ("_try_put_index",),
    "_get_data": ("_try_get_data",),
    "_try_get_data": ("_data_queue", "_workers"),
    "_shutdown_workers": ("_workers_done_event",),
}


def understood(dataloader: Any) -> bool:
    """True if this torch's multi-process iterator works as the gate assumes."""
    iterator = getattr(dataloader, "_MultiProcessingDataLoaderIter", None)
    for method, names in _NEEDED.items():
        code = getattr(getattr(iterator, method, None), "__code__", None)
        if code is None or not set(names) <= set(code.co_names):
            return False
    single = dataloader._SingleProcessDataLoaderIter
    return "_sampler_iter" in dataloader._BaseDataLoaderIter._next_index.__code__.co_names and all(
        name in single._next_data.__code__.co_names for name in ("_next_index", "_dataset_fetcher")
    )


def left_alone(loader: Any, dataloader: Any, directive: Directive) -> str | None:
    """The reason why this loader keeps the user's setting, in a clause; None: it may be set."""
    return (
        _not_plain(loader, dataloader)
        or _too_short(loader, directive)
        or (_with_workers(loader, directive) if loader.num_workers else _without_workers())
    )


def _not_plain(loader: Any, dataloader: Any) -> str | None:
    if loader._dataset_kind != dataloader._DatasetKind.Map:
        return "iterable dataset"
    if any("datapipes" in kind.__module__ for kind in type(loader.dataset).__mro__):
        return "data pipe"
    harmful = _read_by_iterators(dataloader.DataLoader)
    for kind in type(loader).__mro__:
        if kind is dataloader.DataLoader:
            break
        if set(vars(kind)) & harmful:
            return "a DataLoader subclass of its own kind"
    if not getattr(loader, "in_order", True):
        return "delivers out of order"
    return None


def _read_by_iterators(kind: Any) -> frozenset[str]:
    """Names of torch's DataLoader: its methods, and what its constructor sets."""
    names = {*vars(kind), *kind.__init__.__code__.co_names}
    return _HARMFUL | (frozenset(names) - _HARMLESS)


def _too_short(loader: Any, directive: Directive) -> str | None:
    sampler = loader._index_sampler
    sampler = sampler.sampler if samplers.repeats(sampler) else sampler
    torchs_own = type(sampler).__module__.startswith("torch.utils.data.")
    if not directive.gates and not torchs_own:
        return None  # a __len__ of the user's may cost or change something: not for a mere look
    try:
        return None if len(sampler) >= MIN_BATCHES else "few batches"
    except Exception:  # the user's own __len__: any error means that it has none
        return "no length"


def _with_workers(loader: Any, directive: Directive) -> str | None:
    if draws_matter(loader, directive):
        known = _forks(loader) and drawing(loader)
        return None if known else "pinned seeds (DLQUEUE_SEEDED=allow lifts this)"
    return ASKS if _goes_by_number(loader) else None


def _goes_by_number(loader: Any) -> bool:
    """True if a number names what only one worker may have, or if it may not be one as written."""
    if worker_numbers.named_by(loader.worker_init_fn):
        return True
    return not _forks(loader) and "get_worker_info" in names_of_a_fetch(loader.dataset)


def in_one_order(loader: Any) -> bool:
    """True if a single worker makes all batches: it may read on where its last fetch ended."""
    return loader.num_workers == 1 and _forks(loader)


def draws_matter(loader: Any, directive: Directive) -> bool:
    """True if each of the user's workers is to keep its own stream of random numbers."""
    if not loader.num_workers or directive.seeds_may_change:
        return False
    return pinned_seed(loader) or own_streams.of(loader)


def _forks(loader: Any) -> bool:
    context = loader.multiprocessing_context or sys.modules["torch"].multiprocessing
    return bool(context.get_start_method() == "fork")


def drawing(loader: Any) -> samplers.Drawing | None:
    """Bound on drawing this loader's indices ahead; None: not known."""
    try:
        found = samplers.Drawing(loader._index_sampler)
    except Exception:  # a __len__ of the user's own
        return None
    return found if found.known else None


def _without_workers() -> str | None:
    if multiprocessing.current_process().daemon:
        return "a daemonic process may not have workers"
    if multiprocessing.get_start_method(allow_none=True) not in (None, "fork"):
        return "workers would not be forked"
    if "fork" not in multiprocessing.get_all_start_methods():
        return "workers would not be forked"
    return None


def pinned_seed(loader: Any) -> bool:
    """True if the job chose a seed of this loader's random numbers.

    Its generator shuffles and seeds workers; without workers its dataset draws from torch's own.
    """
    found = [sys.modules["torch"].default_generator, loader.generator]
    seeds = [one.initial_seed() for one in found if one is not None]
    return any(seed < PINNED_SEEDS_BELOW or seed == _AS_MADE for seed in seeds)
