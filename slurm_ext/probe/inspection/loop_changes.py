"""Changes that a training loop makes to its data between two batches.

A worker has a copy of the dataset. Where the loop sets a difficulty, corrects labels or trains the
very model that the dataset asks, batches that workers made before are not those as written.
"""

from __future__ import annotations

import collections
import functools
import sys
import types
import zlib
from itertools import islice
from typing import Any, Callable, Iterator, Mapping

from .dataset_inspection import OPAQUE, parts
from .program_code import code_of, own_classes, variables

_MOST_LOOKS = 64  # one or two us each, before each batch
_MOST_OBJECTS = 1000
_MOST_ITEMS = 256  # of a container: the same ones are equal without being asked
_MOST_BYTES = 16384  # of a numpy array, all of which is read each time
_MOST_PARAMETERS = 8  # an optimiser moves them all

_Look = Callable[[], Any]


class Snapshot:
    """All that one can cheaply see of what batches are made from, nearest first.

    `models`: weights count, too (a collate function may hold a model and ask it for its form only).
    """

    def __init__(self, *roots: Any, models: bool = True) -> None:
        self._seen: list[tuple[_Look, Any]] = []
        known: set[int] = set()
        waiting = collections.deque(roots)
        while waiting and len(self._seen) < _MOST_LOOKS and len(known) < _MOST_OBJECTS:
            item = waiting.popleft()
            hidden = isinstance(item, OPAQUE) or not (models or not _is_model(item))
            if id(item) not in known and not hidden:
                known.add(id(item))
                self._seen.extend((look, look()) for look in _looks(item))
                waiting.extend(_all_parts(item))

    def changed(self) -> bool:
        """True if any of it is not as it was; an error where arrays are not the same ones."""
        return any(before != look() for look, before in self._seen)


class LoopWatch:
    """A look before each batch at what this loader's batches are made from."""

    def __init__(self, dataset: Any, collate_fn: Any) -> None:
        self._of = dataset, collate_fn
        self._snapshots: list[Snapshot] = []
        self._hidden = False  # nobody can tell

    def begin(self) -> None:
        """Changes count from here on."""
        dataset, collate_fn = self._of
        try:
            self._snapshots = [Snapshot(dataset), Snapshot(collate_fn, models=False)]
        except Exception:  # objects of another kind
            self._hidden = True

    def rest(self) -> None:
        """Nothing counts until the next `begin`."""
        self._snapshots, self._hidden = [], False

    def has_changed_it(self) -> bool:
        """True if it is not what it was at `begin`, or cannot be looked at."""
        try:
            return self._hidden or any(one.changed() for one in self._snapshots)
        except Exception:
            return True


def _looks(item: Any) -> Iterator[_Look]:
    """Ways to see that an object was written to."""
    if isinstance(item, (dict, list, set)):
        yield from _looks_at_items(item)
    elif isinstance(item, types.FunctionType):
        yield from _looks_at_function(item)
    elif not isinstance(item, (tuple, frozenset)):
        attributes = getattr(item, "__dict__", None)
        if type(attributes) is dict and attributes:
            yield lambda: tuple(item.__dict__.values())
        yield from _looks_at_classes(item)
        yield from _looks_at_numbers(item)


def _looks_at_items(item: Any) -> Iterator[_Look]:
    if len(item) > _MOST_ITEMS:
        yield item.__len__
    if isinstance(item, list):
        yield lambda: item[:_MOST_ITEMS]
    elif isinstance(item, dict):
        yield lambda: tuple(islice(item.values(), _MOST_ITEMS))
    else:
        yield lambda: tuple(islice(item, _MOST_ITEMS))


def _looks_at_function(function: types.FunctionType) -> Iterator[_Look]:
    cells = function.__closure__
    if cells:
        yield lambda: tuple(map(_content, cells))
    names, space = variables(function), function.__globals__
    if names:
        yield functools.partial(_values, space, names)


def _looks_at_classes(item: Any) -> Iterator[_Look]:
    for kind, names in own_classes(item):
        if names:
            yield functools.partial(_values, vars(kind), names)


def _values(space: Mapping[str, Any], names: list[str]) -> tuple[Any, ...]:
    return tuple(map(space.get, names))


def _looks_at_numbers(item: Any) -> Iterator[_Look]:
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    ctypes = sys.modules.get("ctypes")
    if isinstance(item, torch.Tensor):
        if not item.is_inference():
            yield lambda: item._version
    elif isinstance(item, torch.nn.Module):
        for parameter in islice(item.parameters(), _MOST_PARAMETERS):
            yield from _looks_at_numbers(parameter)
    elif numpy is not None and type(item) is numpy.ndarray and _small(item):
        yield lambda: zlib.crc32(item.data)
    elif ctypes is not None and isinstance(item, ctypes._SimpleCData):
        yield lambda: item.value  # a number that processes share


def _is_model(item: Any) -> bool:
    return isinstance(item, sys.modules["torch"].nn.Module) and any(True for _ in item.parameters())


def _small(array: Any) -> bool:
    """True if an array's bytes are numbers, few, and in memory (not of a mapped file)."""
    in_memory = array.base is None or type(array.base) is type(array)
    plain = array.dtype.kind in "biuf" and array.flags.c_contiguous
    return bool(plain and in_memory and 0 < array.nbytes <= _MOST_BYTES)


def _all_parts(item: Any) -> Iterator[Any]:
    """The variables that the program's own code reads for an object, and the object's parts."""
    if isinstance(item, types.FunctionType):
        yield from map(item.__globals__.get, variables(item))
        yield from parts(item)
        return
    for kind, names in own_classes(item):
        yield from map(vars(kind).get, names)
        yield from code_of(kind)
    attributes = getattr(item, "__dict__", None)
    if type(attributes) is not dict:
        yield from parts(item)
        return
    module = isinstance(item, sys.modules["torch"].nn.Module)  # with a dozen empty hooks
    yield from (p for p in attributes.values() if not (module and isinstance(p, dict) and not p))
    yield from (part for part in parts(item) if part is not attributes)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty one
        return None
