"""Which loaders are set, and why the others are left alone. Looks only; changes nothing."""

from __future__ import annotations

import inspect
import multiprocessing
import sys
from typing import Any

from .directive import Directive

MIN_BATCHES = 8
PINNED_SEEDS_BELOW = 1 << 32  # an unpinned torch generator starts from a random 64-bit number
# What a subclass may define and still iterate as torch's own does.
_HARMLESS = frozenset(
    (
        "__init__",
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
_SAMPLERS = ("SequentialSampler", "RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")
_NEEDED = {  # the internals that the gate leans on: method, and the names its code must use
    "__init__": ("_index_queues", "_workers", "_reset"),
    "_reset": ("_worker_queue_idx_cycle", "_send_idx", "_rcvd_idx", "_try_put_index"),
    "_try_put_index": ("_worker_queue_idx_cycle", "_next_index", "_send_idx", "_prefetch_factor"),
    "_next_data": ("_rcvd_idx", "_task_info", "_get_data", "_process_data"),
    "_process_data": ("_try_put_index",),
    "_get_data": ("_try_get_data",),
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
        or (_with_workers if loader.num_workers else _without_workers)(
            loader, dataloader, directive
        )
    )


def _not_plain(loader: Any, dataloader: Any) -> str | None:
    if loader._dataset_kind != dataloader._DatasetKind.Map:
        return "iterable dataset"
    if any("datapipes" in kind.__module__ for kind in type(loader.dataset).__mro__):
        return "data pipe"
    for kind in type(loader).__mro__:
        if kind is dataloader.DataLoader:
            break
        if not set(vars(kind)) <= _HARMLESS:
            return "a DataLoader subclass of its own kind"
    if not getattr(loader, "in_order", True):
        return "delivers out of order"
    return None


def _too_short(loader: Any, directive: Directive) -> str | None:
    torchs_own = type(loader._index_sampler).__module__.startswith("torch.utils.data.")
    if not directive.gates and not torchs_own:
        return None  # a __len__ of the user's may cost or change something: not for a mere look
    try:
        return None if len(loader._index_sampler) >= MIN_BATCHES else "few batches"
    except Exception:  # the user's own __len__: any error means that it has none
        return "no length"


def _with_workers(loader: Any, dataloader: Any, directive: Directive) -> str | None:
    del dataloader
    if pinned_seed(loader) and not directive.seeds_may_change:
        return "pinned seeds (DLQUEUE_SEEDED=allow lifts this)"
    return None


def _without_workers(loader: Any, dataloader: Any, directive: Directive) -> str | None:
    del directive
    if not _known_sampler(loader, dataloader):
        return "a sampler of its own kind"
    if multiprocessing.current_process().daemon:
        return "a daemonic process may not have workers"
    if multiprocessing.get_start_method(allow_none=True) not in (None, "fork"):
        return "workers would not be forked"
    if "fork" not in multiprocessing.get_all_start_methods():
        return "workers would not be forked"
    return None


def pinned_seed(loader: Any) -> bool:
    """True if the job chose the seed of this loader's random numbers."""
    generator = loader.generator or sys.modules["torch"].default_generator
    return bool(generator.initial_seed() < PINNED_SEEDS_BELOW)


def _known_sampler(loader: Any, dataloader: Any) -> bool:
    """Torch's own samplers do not look at the training: their indices may be drawn early."""
    if loader.batch_sampler is not None:
        if type(loader.batch_sampler) is not dataloader.BatchSampler:
            return False
        sampler = loader.batch_sampler.sampler
    else:
        sampler = loader.sampler
    home = inspect.getmodule(type(sampler))
    return (type(sampler).__name__, getattr(home, "__name__", "")) in {
        *((name, "torch.utils.data.sampler") for name in _SAMPLERS),
        ("DistributedSampler", "torch.utils.data.distributed"),
    }
