"""The look of a dataset, to be compared with a later one; it keeps no object alive meanwhile."""

from __future__ import annotations

from typing import Any

from .dataset_inspection import DatasetInspection
from .looks import MOST_ITEMS
from .loop_changes import Snapshot

_PLAIN = (bool, int, float, complex, type(None))


def appearance(dataset: Any, collate_fn: Any) -> Any:
    """Two equal ones say that no setting, generator or part was changed or replaced between them.

    Whoever drops a part of the data before making the next one has its memory back at once.
    """
    snapshots = Snapshot(dataset), Snapshot(collate_fn, models=False)
    seen = [_told(value) for one in snapshots for value in one.values()]
    return DatasetInspection(dataset).signature, _told(collate_fn), seen


def _told(value: Any) -> Any:
    """Plain values as they are, tuples and lists by their first items, others by identity."""
    if type(value) in (tuple, list):
        return [_told(item) for item in value[:MOST_ITEMS]]
    # An object that is gone leaves its identity to another, most often of another kind.
    return value if type(value) in _PLAIN else (id(value), id(type(value)))
