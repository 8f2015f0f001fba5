"""Changes that a training loop makes to its data between two batches.

A worker has a copy of the dataset. Where the loop sets a difficulty, corrects labels or trains the
very model that the dataset asks, batches that workers made before are not those as written.
"""

from __future__ import annotations

import collections
import os
import sys
import types
import weakref
from typing import Any, Iterator

from ..program.program_code import code_of, own_classes, variables
from .dataset_inspection import OPAQUE, parts, telling
from .looks import Look, looks, memory_looks
from .pages import Memory
from .samplers import set_of

_MOST_LOOKS, _MOST_OBJECTS = 64, 1000  # one or two us each, before each batch
_MOST_CLOSELY = 20  # times as many around one fetch
# Seconds of looks at pages before each batch: of such a batch at home a part, and as other looks.
_MOST_OF_A_BATCH, _LEAST_S = 0.2, 0.0005


class Snapshot:
    """All that one can cheaply see of what batches are made from, nearest first.

    `models`: weights count, too (a collate function may hold a model and ask it for its form only).
    `closely`: around a fetch, where milliseconds do not count: random states and all of an array.
    """

    def __init__(
        self,
        *roots: Any,
        models: bool = True,
        closely: bool = False,
        most: int = _MOST_OBJECTS,
    ) -> None:
        self._seen: list[tuple[Look, Any]] = []
        self._closely = closely
        self.memories: dict[int, Memory] = {}
        times = _MOST_CLOSELY if closely else 1
        for item in walk(*roots, models=models, most=times * most):
            if len(self._seen) >= times * _MOST_LOOKS:
                break
            self._look_at(item)

    def _look_at(self, item: Any) -> None:
        found = list(looks(item))
        for one in memory_looks(item, small=not self._closely):
            if not isinstance(one, Memory):
                found.append(one)
            elif one.address not in self.memories:
                self.memories[one.address] = one
                found.append(one.sum if self._closely else one.ends)
        if self._closely:
            found.append(lambda: telling(item))
        self._seen.extend((look, look()) for look in found)

    def changed(self) -> bool:
        """True if any of it is not as it was; an error where arrays are not the same ones."""
        return any(before != look() for look, before in self._seen)

    def written(self) -> bool:
        """True if a large array's page is no longer shared with workers that were forked."""
        return any(memory.copied() for memory in self.memories.values())

    def values(self) -> list[Any]:
        """All of it as it was, in the order in which it was found."""
        return [before for _, before in self._seen]

    def pages_s(self) -> float:
        """Seconds that `written` takes at most, about."""
        return sum(memory.look_s() for memory in self.memories.values())


class LoopWatch:
    """A look before each batch at what this loader's batches are made from."""

    def __init__(self, dataset: Any, collate_fn: Any, index_sampler: Any = None) -> None:
        self._of = dataset, collate_fn, index_sampler
        self._snapshots: list[Snapshot] = []
        self._forked = False
        self._hidden = False  # nobody can tell
        _watches.add(self)

    def begin(self, forked: bool = False) -> None:
        """Changes count from here on; `forked`: workers have copies of all there is."""
        dataset, collate_fn, index_sampler = self._of
        self._forked = forked
        try:
            read = set_of(index_sampler)
            self._snapshots = [
                Snapshot(dataset),
                Snapshot(collate_fn, models=False),
                Snapshot(*read, most=len(read)),
            ]
        except Exception:  # objects of another kind
            self._hidden = True

    def rest(self) -> None:
        """Nothing counts until the next `begin`."""
        self._snapshots, self._hidden = [], False

    def has_changed_it(self) -> bool:
        """True if it is not what it was at `begin`, or cannot be looked at."""
        try:
            return self._hidden or any(one.changed() for one in self._snapshots) or self._written()
        except Exception:
            return True

    def _written(self) -> bool:
        return self._forked and any(one.written() for one in self._snapshots)

    def may_look(self, batch_s: float) -> bool:
        """True if looks at pages cost little beside batches that take so long at home."""
        looks_s = sum(one.pages_s() for one in self._snapshots)
        return looks_s <= max(_LEAST_S, _MOST_OF_A_BATCH * batch_s)

    def note_writes(self) -> None:
        """Keep in mind that pages were written to: after another fork they are shared again."""
        try:
            self._hidden = self._hidden or self._written()
        except Exception:
            self._hidden = True


_watches: weakref.WeakSet[LoopWatch] = weakref.WeakSet()


def _before_fork() -> None:
    for watch in list(_watches):
        watch.note_writes()


os.register_at_fork(before=_before_fork)


def walk(*roots: Any, models: bool = True, most: int = _MOST_OBJECTS) -> Iterator[Any]:
    """The objects that batches are made from, nearest first; globals that own code reads, too."""
    known: set[int] = set()
    waiting = collections.deque(roots)
    while waiting and len(known) < most:
        item = waiting.popleft()
        hidden = isinstance(item, OPAQUE) or not (models or not _is_model(item))
        if id(item) not in known and not hidden:
            known.add(id(item))
            yield item
            waiting.extend(_all_parts(item))


def _is_model(item: Any) -> bool:
    return isinstance(item, sys.modules["torch"].nn.Module) and any(True for _ in item.parameters())


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
