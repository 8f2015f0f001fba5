"""A closely watched fetch in the training process: shows if a worker could make it as well."""

from __future__ import annotations

import gc
import os
import sys
import threading
import types
from typing import Any, Iterator

from ..program.program_code import names_of_a_fetch
from .dataset_inspection import OPAQUE, DatasetInspection
from .guarding import KEEPS_STATE
from .loop_changes import Snapshot, walk
from .random_state import random_state, same_state

_PINNED = "pinned seeds (DLQUEUE_SEEDED=allow lifts this)"
_UNSEEN = "the dataset cannot be looked through"
_READS_ALONG = "fetching moves an open file's position"
_SHARED = "the training gets the dataset's own objects"
WRITTEN = "the program may write to the dataset's items"
_LOCKED = "the dataset takes a lock that another thread may hold"
_SEEDS = "fetching seeds the training's random numbers"
ASKS = "the dataset asks in which process it is"
_OF_A_PROCESS = frozenset(("get_worker_info", "current_process", "parent_process"))
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_WRITE_ONLY = 1  # O_WRONLY of O_ACCMODE
_MOST_OBJECTS = 2000


class FetchTrial:
    """One fetch's surroundings, from before it; `closely`: the dataset's parts, too."""

    def __init__(self, dataset: Any, collate_fn: Any, seeded: bool, closely: bool) -> None:
        self._random = random_state() if seeded else None
        self._seed = sys.modules["torch"].initial_seed()
        self._dataset, self._closely, self._hidden = dataset, closely, False
        if not closely:
            return
        try:
            self._of_data = Snapshot(dataset, closely=True)
            self._of_collate = Snapshot(collate_fn, models=False, closely=True)
            self._inspection = DatasetInspection(dataset)
            self._places = _places()
        except Exception:  # looking at the user's objects raised an error
            self._hidden = True

    def against(self, data: Any) -> str | None:
        """The reason against workers that the fetch of this batch showed; None: there is none."""
        try:
            return self._found(data)
        except Exception:
            return _UNSEEN

    def _found(self, data: Any) -> str | None:
        if self._hidden:
            return _UNSEEN
        if self._random is not None and not same_state(self._random, random_state()):
            return _PINNED
        if sys.modules["torch"].initial_seed() != self._seed:
            return _SEEDS
        return self._against_the_dataset(data) if self._closely else None

    def _against_the_dataset(self, data: Any) -> str | None:
        inspection = DatasetInspection(self._dataset)
        if inspection.unfit is not None:
            return inspection.unfit
        known = self._of_data, self._of_collate
        if inspection.signature != self._inspection.signature or any(s.changed() for s in known):
            return KEEPS_STATE
        if names_of_a_fetch(self._dataset) & _OF_A_PROCESS:
            return ASKS
        if any(self._places.get(one, at) != at for one, at in _places().items()):
            return _READS_ALONG
        if threading.active_count() > 1 and any(isinstance(i, _LOCKS) for i in walk(self._dataset)):
            return _LOCKED
        return _SHARED if _shares(data, self._of_data) else None


def _places() -> dict[str, int]:
    """Positions of the files that this process reads: forked processes have them in common."""
    found = {}
    for number in os.listdir("/proc/self/fdinfo"):
        try:
            with open(f"/proc/self/fdinfo/{number}") as file:
                position, flags = (line.split()[1] for line in (next(file), next(file)))
        except (OSError, StopIteration, IndexError):  # that of the list itself
            continue
        if int(flags, 8) & 3 != _WRITE_ONLY:
            found[number] = int(position)
    return found


def _shares(data: Any, dataset: Snapshot) -> bool:
    """True if a batch is not the training's alone: what it writes there the dataset would keep."""
    tensor = sys.modules["torch"].Tensor
    found = list(_batch_parts(data))
    for item in found:
        if isinstance(item, tensor) and item.device.type == "cpu" and not item.is_sparse:
            address = item.data_ptr()
            if any(memory.has(address) for memory in dataset.memories.values()):
                return True
    kept = [item for item in found if not isinstance(item, tensor)]
    if not kept or (len(kept) == 1 and type(data) in (list, tuple)):
        return False  # made by putting tensors together
    theirs = {id(item) for item in found} | {id(found), id(kept)}
    theirs |= {id(item.__dict__) for item in kept if hasattr(item, "__dict__")}
    return any(
        id(holder) not in theirs and not isinstance(holder, types.FrameType)
        for holder in gc.get_referrers(*kept)
    )


def _batch_parts(data: Any) -> Iterator[Any]:
    """Parts of a batch that can be written to: containers, arrays, tensors, objects."""
    tensor, waiting = sys.modules["torch"].Tensor, [data]
    known: set[int] = set()
    while waiting and len(known) < _MOST_OBJECTS:
        item = waiting.pop()
        if id(item) in known or item is None or isinstance(item, OPAQUE):
            continue
        known.add(id(item))
        if isinstance(item, tensor):
            yield item
        elif isinstance(item, (list, tuple)):
            yield item
            waiting.extend(item)
        elif isinstance(item, dict):
            yield item
            waiting.extend(item.values())
        elif type(item).__module__ == "numpy" or type(getattr(item, "__dict__", None)) is dict:
            yield item
            waiting.extend(getattr(item, "__dict__", {}).values())
