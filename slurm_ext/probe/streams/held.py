"""Places in files and iterators that a worker has from the training process, as all others do."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from ..inspection.loop_changes import walk


class Inherited:
    """Notes them before a worker's first fetch; those that a fetch opened are its own."""

    def __init__(self, dataset: Any) -> None:
        held = list(walk(dataset))
        self._iterates = any(_is_iterator(item) for item in held)
        self._files = [found for item in held for found in _place(item)]

    def moved(self) -> bool:
        """True if another worker would read on where this one does, or nobody can tell."""
        try:
            return self._iterates or any(file.tell() != at for file, at in self._files)
        except (OSError, ValueError):  # closed, or in the midst of its lines
            return True


def _is_iterator(item: Any) -> bool:
    return hasattr(type(item), "__next__") and not isinstance(item, io.IOBase)


def _place(item: Any) -> list[tuple[Any, int]]:
    with contextlib.suppress(OSError, ValueError):
        if isinstance(item, io.IOBase) and item.readable():
            return [(item, item.tell())]
    return []
