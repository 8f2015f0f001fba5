"""Bounds on how far a loader's indices may be drawn ahead of the training, sampler by sampler.

Torch's own samplers draw what they need when a pass begins and do not look at the training. So do
some of accelerate's, which also note the end of a pass, as torch's RandomSampler does in a
generator of the program's: their last batch is drawn when the training asks for it. A sampler that
begins anew by itself (the repeating ones of timm and Ultralytics) shuffles anew at that moment: it
is not drawn beyond its epoch before the training gets there. Any other one is safe where it has
already made its whole list (index_iterators.py).
"""

from __future__ import annotations

import inspect
from typing import Any

_TORCHS = {
    ("SequentialSampler", "torch.utils.data.sampler"),
    ("RandomSampler", "torch.utils.data.sampler"),
    ("SubsetRandomSampler", "torch.utils.data.sampler"),
    ("WeightedRandomSampler", "torch.utils.data.sampler"),
    ("DistributedSampler", "torch.utils.data.distributed"),
}
_NOTES_ITS_END = {("SeedableRandomSampler", "accelerate.data_loader")}
BATCHES = ("BatchSampler", "torch.utils.data.sampler")
_WRAPPERS = {  # the attribute that holds the sampler which they pass on
    ("BatchSampler", "torch.utils.data.sampler"): "sampler",
    ("BatchSamplerShard", "accelerate.data_loader"): "batch_sampler",
    ("SkipBatchSampler", "accelerate.data_loader"): "batch_sampler",
}
_READ_ALL_ALONG = {
    ("SubsetRandomSampler", "torch.utils.data.sampler"),
    ("BatchSampler", "torch.utils.data.sampler"),
}


class Drawing:
    """Drawing of a loader with this index sampler; `known`: its sampler is named here."""

    def __init__(self, index_sampler: Any) -> None:
        self._endless = repeats(index_sampler)
        sampler = index_sampler.sampler if self._endless else index_sampler
        inner = _inside(sampler)
        name = named(inner)
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
    wrapper = _WRAPPERS.get(named(sampler))
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
        if named(index_sampler) in _READ_ALL_ALONG:
            found.append(settings)
            lists = (settings.get(name) for name in ("indices", "sampler"))
            found += [part for part in lists if _plain_list(part)]
        index_sampler = settings.get(_WRAPPERS.get(named(index_sampler), ""))
    return found


def _plain_list(part: Any) -> bool:
    return isinstance(part, list) or hasattr(part, "__array__")


def named(sampler: Any) -> tuple[str, str]:
    """Name and module of the class whose drawing a sampler has."""
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
    if named(sampler) == _COUNTS_EPOCHS and set(code.co_names) <= _NAMES_OF_COUNTING:
        return True
    return code.co_code in _REPEATING and code.co_names == _repeating.__code__.co_names
