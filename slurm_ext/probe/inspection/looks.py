"""Ways to see that an object was written to: each costs one or two microseconds."""

from __future__ import annotations

import functools
import mmap
import os
import sys
import types
import zlib
from collections import deque
from itertools import islice
from typing import Any, Callable, Iterator, Mapping

from ..program.program_code import names_in, own_classes, variables
from .dataset_inspection import MOST_SUMMED
from .pages import Memory, memory_of

MOST_ITEMS = 256  # of a container: the same ones are equal without being asked
_MOST_BYTES = 16384  # all of which is read each time
_MOST_PARAMETERS = 8  # an optimiser moves them all
_SETTINGS = {"environ", "getenv"}

Look = Callable[[], Any]


def looks(item: Any) -> Iterator[Look]:
    """Ways to see that an object was written to."""
    if isinstance(item, (dict, list, set, deque)):
        yield from _looks_at_items(item)
    elif isinstance(item, types.FunctionType):
        yield from _looks_at_function(item)
    elif not isinstance(item, (tuple, frozenset)):
        attributes = getattr(item, "__dict__", None)
        if type(attributes) is dict and attributes:
            yield lambda: tuple(item.__dict__.values())
        yield from _looks_at_classes(item)
        yield from _looks_at_numbers(item)


def _looks_at_items(item: Any) -> Iterator[Look]:
    if len(item) > MOST_ITEMS:
        yield item.__len__
    if isinstance(item, list):
        yield lambda: item[:MOST_ITEMS]
    elif isinstance(item, dict):
        yield lambda: tuple(islice(item.values(), MOST_ITEMS))
    else:
        yield lambda: tuple(islice(item, MOST_ITEMS))


def _looks_at_function(function: types.FunctionType) -> Iterator[Look]:
    cells = function.__closure__
    if cells:
        yield lambda: tuple(map(_content, cells))
    if names_in(function) & _SETTINGS:
        yield lambda: tuple(vars(os.environ)["_data"].items())
    names, space = variables(function), function.__globals__
    if names:
        yield functools.partial(_values, space, names)


def _looks_at_classes(item: Any) -> Iterator[Look]:
    for kind, names in own_classes(item):
        if names:
            yield functools.partial(_values, vars(kind), names)


def _values(space: Mapping[str, Any], names: list[str]) -> tuple[Any, ...]:
    return tuple(map(space.get, names))


def _looks_at_numbers(item: Any) -> Iterator[Look]:
    torch, ctypes = sys.modules["torch"], sys.modules.get("ctypes")
    if isinstance(item, torch.nn.Module):
        for parameter in islice(item.parameters(), _MOST_PARAMETERS):
            yield from _looks_at_tensor(parameter)
    elif isinstance(item, torch.Tensor):
        yield from _looks_at_tensor(item)
    elif ctypes is not None and isinstance(item, ctypes._SimpleCData):
        yield lambda: item.value  # a number that processes share
    elif isinstance(item, (bytearray, mmap.mmap)) or (
        ctypes is not None and isinstance(item, ctypes.Array)
    ):
        with memoryview(item) as whole:
            fixed, few = whole.readonly, whole.nbytes <= MOST_SUMMED
        if not fixed:
            yield (lambda: zlib.crc32(item)) if few else (lambda: zlib.crc32(_first(item)))


def _looks_at_tensor(tensor: Any) -> Iterator[Look]:
    if not tensor.is_inference():
        yield lambda: tensor._version


def _first(item: Any) -> bytes:
    with memoryview(item) as whole, whole.cast("B") as numbers:
        return bytes(numbers[:MOST_SUMMED])


def memory_looks(item: Any, small: bool) -> Iterator[Look | Memory]:
    """Of an array's bytes: their sum where they are few, else their memory.

    A tensor's counts of writes are silent about those through an array of the same memory.
    """
    memory = memory_of(item)
    if memory is None:
        return
    if small and memory.size <= _MOST_BYTES:
        yield memory.sum
    else:
        yield memory


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty one
        return None
