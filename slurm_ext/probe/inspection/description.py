"""Facts of a loader as the user made it: how it is described in the summary."""

from __future__ import annotations

import operator
from typing import Any


def facts_of(loader: Any, dataloader: Any) -> dict[str, Any]:
    """Facts that part a DataLoader from others; `dataloader` is torch's module."""
    is_map = loader._dataset_kind == dataloader._DatasetKind.Map
    return {
        "dataset": type(loader.dataset).__name__[:80],
        "style": "map" if is_map else "iterable",
        "batch_size": _batch_size(loader),
        "length": length(loader.dataset),
        "user_num_workers": int(loader.num_workers),
        "persistent": bool(loader.persistent_workers),
    }


def facts_of_iterator(iterator: Any, dataloader: Any) -> dict[str, Any]:
    """The same of one of torch's iterators that another library's loader made."""
    dataset = iterator._dataset
    return {
        "dataset": type(dataset).__name__[:80],
        "of": id(dataset),  # names tell two of a library's loaders not apart
        "style": "map" if iterator._dataset_kind == dataloader._DatasetKind.Map else "iterable",
        "batch_size": None,
        "length": length(dataset),
        "user_num_workers": int(iterator._num_workers),
        "persistent": bool(iterator._persistent_workers),
    }


def _batch_size(loader: Any) -> int | None:
    """Samples of a batch as the loader, or its batch sampler, says; None for what is no number.

    A sampler's may be of any kind, numpy's for one, and the summary takes plain numbers alone.
    """
    try:
        size = loader.batch_size or loader.batch_sampler.batch_size
        return None if isinstance(size, bool) else int(operator.index(size))
    except Exception:  # whatever the user's own raises
        return None


def rows_in_all(loader: Any) -> int | None:
    """Samples of a whole pass; None if it is not simply the sampler's length."""
    if loader.batch_size is None or loader.drop_last:
        return None
    return length(loader.sampler)


def length(sized: Any) -> int | None:
    """Its length; None where it has none, or the user's own `__len__` fails."""
    try:
        return len(sized)
    except Exception:  # whatever the user's own raises
        return None
