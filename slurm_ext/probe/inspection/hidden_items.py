"""Items of a dataset that a look before each batch does not see, as they are in long containers."""

from __future__ import annotations

import datetime as dt
import pathlib
import sys
from collections import deque
from itertools import islice
from typing import Any, Iterator

from ..program.program_code import is_of_the_program
from .dataset_inspection import MAX_ITEMS, OPAQUE, DatasetInspection
from .looks import MOST_ITEMS
from .loop_changes import walk

_CONTAINERS = (list, tuple, dict, deque)
_PLAIN = (*OPAQUE, type(None), range, pathlib.PurePath, dt.date, dt.timedelta)
_KNOWN_HOMES = ("builtins", "collections", "numpy", "torch")
_MOST_WALKED, _MOST_ITEMS, _MOST_SHARED = 200, 20000, 16


class HiddenItems:
    """`containers` have items that can be written to, `long` ones only places for others.

    `plain`: keys and places of items where none has more than numbers and texts. `strange`: some
    are objects of libraries. `shared`: items that somebody has besides, and arrays of files that
    can be written to. `ways`: datasets.
    Of lists that a loader samples from (`sampled`), all is out of reach.
    """

    def __init__(self, dataset: Any, sampled: Any = ()) -> None:
        found = list(walk(dataset, most=_MOST_WALKED))
        many = [one for one in found if type(one) in _CONTAINERS and len(one) > MAX_ITEMS]
        many += sampled
        self.containers = [one for one in many if not all(map(_is_plain, _items(one)))]
        rest = [one for one in many if len(one) > MOST_ITEMS and type(one) is not tuple]
        rest += sampled
        self.long = [one for one in rest if not any(one is other for other in self.containers)]
        self.ways = [one for one in found if hasattr(type(one), "__getitem__") and _is_own(one)]
        self.plain = _plain_keys(self.containers)
        self.strange = any(map(_is_strange, self._nearest()))
        besides = (item for one in self.containers for item in _shared(one))
        self.shared = [*DatasetInspection(dataset).mapped, *islice(besides, _MOST_SHARED)]
        self.some = bool(self.containers or self.long or self.shared)

    def _nearest(self) -> Iterator[Any]:
        for container in self.containers:
            for item in islice(_items(container), MAX_ITEMS):
                yield item
                yield from _parts(item).values()


def _is_own(item: Any) -> bool:
    return is_of_the_program(type(item).__module__)


def _items(container: Any) -> Iterator[Any]:
    return iter(container.values() if isinstance(container, dict) else container)


def _is_plain(item: Any) -> bool:
    """True if nobody can write to it."""
    if isinstance(item, (tuple, frozenset)):
        return all(map(_is_plain, item))
    numpy = sys.modules.get("numpy")
    return isinstance(item, _PLAIN) or (numpy is not None and isinstance(item, numpy.generic))


def _parts(item: Any) -> dict[Any, Any]:
    if isinstance(item, dict):
        return item
    if isinstance(item, (list, tuple)):
        return dict(enumerate(item))
    attributes = getattr(item, "__dict__", None)
    return attributes if type(attributes) is dict else {}


def _plain_keys(containers: list[Any]) -> frozenset[Any]:
    """Keys under which no item has anything that could be written to."""
    if sum(map(len, containers)) > _MOST_ITEMS:
        return frozenset()
    plain: set[Any] = set()
    other: set[Any] = set()
    for container in containers:
        for item in _items(container):
            for key, part in _parts(item).items():
                (plain if _is_plain(part) else other).add(key)
    return frozenset(key for key in plain - other if isinstance(key, (str, int)))


def _is_strange(item: Any) -> bool:
    kind = type(item)
    home = kind.__module__.partition(".")[0]
    return not (_is_plain(item) or home in _KNOWN_HOMES or is_of_the_program(kind.__module__))


def _shared(container: Any) -> Iterator[Any]:
    """Items to which others may refer than their container: the last, and all that have more."""
    items = list(_items(container))
    yield items[-1]
    for few in (items[MAX_ITEMS:MOST_ITEMS], items[MOST_ITEMS:]):
        counts = [sys.getrefcount(item) for item in few]
        lonely = min(counts, default=0)
        yield from (one for one, count in zip(few, counts) if count > lonely and not _is_plain(one))
