"""Iterators of indices: lists that stand already, and batches of another size.

A list is the iterator's own, or torch's BatchSampler makes batches of it, or a generator hands it
on (handing_on.py). A BatchSampler reads its size all along, which the loop may change.
"""

from __future__ import annotations

import gc
import itertools
import sys
from typing import Any, Iterable, Iterator

from .handing_on import handed_on, is_its_own
from .samplers import BATCHES, named

_PLAIN_ITEMS = (int, str)


def batched_again(
    index_sampler: Any, drawn: tuple[Any, ...], rest: Any
) -> Iterator[list[Any]] | None:
    """Batches of a torch's BatchSampler, `drawn` ones included, by its size of now.

    None where those that are drawn have that size, or it is not read all along.
    """
    if named(index_sampler) != BATCHES or index_sampler.drop_last:
        return None
    sizes = {len(batch) for batch in drawn} | {index_sampler.batch_size}
    indices = _inner(rest) if len(sizes) > 1 and getattr(rest, "gi_code", None) else None
    if indices is None:
        return None
    return _batches(index_sampler, itertools.chain(*drawn, indices))


def _batches(sampler: Any, indices: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(itertools.islice(indices, sampler.batch_size)):
        yield batch


def fixed(iterator: Any) -> bool:
    """True if all that an index iterator will give stands already, and nobody else can change it.

    That is a range, or a list that only its iterator holds, given as it is or in batches.
    """
    inner = _unbatched(iterator)
    handed = handed_on(inner)
    if handed is not None and is_its_own(inner, handed) and list_of(handed) is not None:
        return True
    return _stands(handed or inner)


def list_of(iterator: Any) -> list[Any] | None:
    """The list of numbers, or of batches of them, that an index iterator gives as it stands."""
    inner = _innermost(iterator)
    found = next(iter(gc.get_referents(inner)), None) if type(inner) is type(iter([])) else None
    if type(found) is not list:
        return None
    rows = (row if type(row) in (list, tuple) else (row,) for row in found)
    return found if _are_plain(type(part) for row in rows for part in row) else None


def _are_plain(kinds: Iterable[type]) -> bool:
    numpy = sys.modules.get("numpy")
    plain = _PLAIN_ITEMS if numpy is None else (*_PLAIN_ITEMS, numpy.int64, numpy.int32)
    return all(kind in plain for kind in set(kinds))


def _innermost(iterator: Any) -> Any:
    """The list's iterator behind torch's batches, and behind a generator that hands it on."""
    inner = _unbatched(iterator)
    return handed_on(inner) or inner


def _unbatched(iterator: Any) -> Any:
    """The iterator itself, or that from which torch's batches are made; None: not seen."""
    code = getattr(iterator, "gi_code", None)
    return _inner(iterator) if code is not None and code is _batches_code() else iterator


def _batches_code() -> Any:
    return sys.modules["torch.utils.data.sampler"].BatchSampler.__iter__.__code__


def _inner(batches: Any) -> Any:
    """The iterator that a torch's BatchSampler takes its indices from; None: not seen."""
    known = batches.gi_frame.f_locals if batches.gi_frame is not None else {}
    if "self" in known and named(known["self"]) != BATCHES:  # it asks a class of its own for more
        return None
    if "sampler_iter" in known:
        return known["sampler_iter"]
    parts = [part for part in gc.get_referents(batches) if hasattr(part, "__next__")]
    return parts[0] if len(parts) == 1 else None


def _stands(iterator: Any) -> bool:
    if type(iterator) is type(iter(range(0))):
        return True
    if type(iterator) is type(iter([])):
        if _holders(iterator) > _LONELY:
            return False
    elif type(iterator) is not type(iter(())):
        return False
    items = next(iter(gc.get_referents(iterator)), ())
    return _are_plain(map(type, items))


def _holders(iterator: Any) -> int:
    """References to the list of a list's iterator, those of this look included."""
    return max(map(sys.getrefcount, gc.get_referents(iterator)), default=0)


def _lonely() -> int:
    return _holders(iter([object()]))


_LONELY = _lonely()
