"""Bounds on how far a loader's indices may be drawn ahead of the training, sampler by sampler.

Torch's own samplers draw what they need when a pass begins and do not look at the training. So do
some of accelerate's, which also note the end of a pass, as torch's RandomSampler does in a
generator of the program's: their last batch is drawn when the training asks for it. A sampler that
begins anew by itself (the repeating ones of timm and Ultralytics) shuffles anew at that moment: it
is not drawn beyond its epoch before the training gets there. Any other one is safe where it has
already made its whole list (`fixed`).
"""

from __future__ import annotations

import gc
import inspect
import itertools
import sys
from typing import Any, Iterable, Iterator

from .handing_on import handed_on, is_its_own

_TORCHS = {
    ("SequentialSampler", "torch.utils.data.sampler"),
    ("RandomSampler", "torch.utils.data.sampler"),
    ("SubsetRandomSampler", "torch.utils.data.sampler"),
    ("WeightedRandomSampler", "torch.utils.data.sampler"),
    ("DistributedSampler", "torch.utils.data.distributed"),
}
_NOTES_ITS_END = {("SeedableRandomSampler", "accelerate.data_loader")}
_BATCHES = ("BatchSampler", "torch.utils.data.sampler")
_WRAPPERS = {  # the attribute that holds the sampler which they pass on
    ("BatchSampler", "torch.utils.data.sampler"): "sampler",
    ("BatchSamplerShard", "accelerate.data_loader"): "batch_sampler",
    ("SkipBatchSampler", "accelerate.data_loader"): "batch_sampler",
}
_READ_ALL_ALONG = {
    ("SubsetRandomSampler", "torch.utils.data.sampler"),
    ("BatchSampler", "torch.utils.data.sampler"),
}
_PLAIN_ITEMS = (int, str)


class Drawing:
    """Drawing of a loader with this index sampler; `known`: its sampler is named here."""

    def __init__(self, index_sampler: Any) -> None:
        self._endless = repeats(index_sampler)
        sampler = index_sampler.sampler if self._endless else index_sampler
        inner = _inside(sampler)
        name = _named(inner)
        own = name in _TORCHS and getattr(inner, "generator", None) is not None  # the program's
        self.known = name in _TORCHS | _NOTES_ITS_END and not (own and _draws_on(inner))
        self._last_at_its_time = own or name in _NOTES_ITS_END
        stops = self.known and (self._endless or self._last_at_its_time)
        self._length = len(sampler) if stops else None

    def until(self, asked: int) -> float:
        """Batches that may be drawn when the training asks for the one after so many."""
        if self._length is None:
            return float("inf")
        end = (asked // self._length + 1 if self._endless else 1) * self._length
        return max(end - 1 if self._last_at_its_time else end, asked + 1)


def _inside(sampler: Any) -> Any:
    """The sampler behind known wrappers."""
    wrapper = _WRAPPERS.get(_named(sampler))
    return sampler if wrapper is None else _inside(getattr(sampler, wrapper, None))


def _draws_on(sampler: Any) -> bool:
    """True if one draws from its generator all along: the program may draw in between."""
    if type(sampler).__name__ != "RandomSampler":
        return False
    return bool(sampler.replacement or sampler.num_samples > len(sampler.data_source))


def set_of(index_sampler: Any) -> list[Any]:
    """Settings and lists that torch's own samplers read during a pass, for a look at each."""
    found: list[Any] = []
    if isinstance(index_sampler, list):
        return [index_sampler]
    while hasattr(index_sampler, "__dict__"):
        settings = vars(index_sampler)
        if _named(index_sampler) in _READ_ALL_ALONG:
            found.append(settings)
            lists = (settings.get(name) for name in ("indices", "sampler"))
            found += [part for part in lists if _plain_list(part)]
        index_sampler = settings.get(_WRAPPERS.get(_named(index_sampler), ""))
    return found


def _plain_list(part: Any) -> bool:
    return isinstance(part, list) or hasattr(part, "__array__")


def _named(sampler: Any) -> tuple[str, str]:
    kind = _drawing_kind(type(sampler))
    return kind.__name__, getattr(inspect.getmodule(kind), "__name__", "")


def _drawing_kind(kind: type) -> type:
    """The base whose `__iter__` a class has, if it has no other part in what that draws."""
    home = next((base for base in kind.__mro__ if "__iter__" in vars(base)), kind)
    code = getattr(vars(home).get("__iter__"), "__code__", None)
    own = kind.__mro__[: kind.__mro__.index(home)]
    names = {"__getattr__", "__getattribute__", *getattr(code, "co_names", ())}
    return kind if code is None or any(names & vars(base).keys() for base in own) else home


# -- samplers that repeat themselves ---------------------------------------------------------


def _repeating(self: Any) -> Any:
    while True:
        yield from iter(self.sampler)


def _repeating_described(self: Any) -> Any:
    """As it is often written."""
    while True:
        yield from iter(self.sampler)


_REPEATING = {f.__code__.co_code for f in (_repeating, _repeating_described)}
# timm's newer one also sets the inner sampler's epoch as each pass begins, by a count of its
# own: the same indices come whenever a pass begins.
_COUNTS_EPOCHS = ("_RepeatSampler", "timm.data.loader")
_NAMES_OF_COUNTING = {"sampler", "getattr", "hasattr", "set_epoch", "iter"}


def repeats(sampler: Any) -> bool:
    """True if a sampler gives its inner one's indices again and again, and does nothing else."""
    code = getattr(getattr(type(sampler), "__iter__", None), "__code__", None)
    if code is None or not hasattr(sampler, "sampler"):
        return False
    if _named(sampler) == _COUNTS_EPOCHS and set(code.co_names) <= _NAMES_OF_COUNTING:
        return True
    return code.co_code in _REPEATING and code.co_names == _repeating.__code__.co_names


# -- batches whose size the loop sets --------------------------------------------------------


def batched_again(
    index_sampler: Any, drawn: tuple[Any, ...], rest: Any
) -> Iterator[list[Any]] | None:
    """Batches of a torch's BatchSampler, `drawn` ones included, by its size of now.

    None where those that are drawn have that size, or it is not read all along.
    """
    if _named(index_sampler) != _BATCHES or index_sampler.drop_last:
        return None
    sizes = {len(batch) for batch in drawn} | {index_sampler.batch_size}
    indices = _inner(rest) if len(sizes) > 1 and getattr(rest, "gi_code", None) else None
    if indices is None:
        return None
    return _batches(index_sampler, itertools.chain(*drawn, indices))


def _batches(sampler: Any, indices: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(itertools.islice(indices, sampler.batch_size)):
        yield batch


# -- samplers that have made their list ------------------------------------------------------


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
    if "self" in known and _named(known["self"]) != _BATCHES:  # it asks a class of its own for more
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
