"""Batches of a loader, kept to be handed out again: as the loader made them."""

from __future__ import annotations

import collections
import copy
import sys
from typing import Any, Callable

MOST = 8  # batches: enough that lengths that differ are all there
LEAST = 2
MOST_BYTES = 1 << 30
_DEPTH = 4


class BatchCache:
    """The latest batches, handed out in turn."""

    def __init__(self, bytes_of: Callable[[Any], int]) -> None:
        self._bytes_of = bytes_of
        self._batches: collections.deque[Any] = collections.deque(maxlen=MOST)
        self._handed: Any = None
        self._versions: list[int] = []
        self.clones = False  # the training changes its batches in place

    def __len__(self) -> int:
        return len(self._batches)

    def keep(self, batch: Any) -> None:
        """Keep the parts of a real batch; its containers are the training's to change."""
        self._batches.append(_shell(batch))
        while len(self._batches) > LEAST and self._bytes() > MOST_BYTES:
            self._batches.popleft()

    def _bytes(self) -> int:
        return len(self._batches) * self._bytes_of(self._batches[-1])

    def hand(self) -> Any:
        """The next batch, in containers of its own."""
        self._look_for_changes()
        self._batches.rotate(-1)
        self._handed = self._batches[-1]
        self._versions = [tensor._version for tensor in _tensors(self._handed)]
        return _shell(self._handed, self.clones)

    def _look_for_changes(self) -> None:
        """Hand out copies from here on, if the last batch's tensors were written to."""
        if self._handed is not None and not self.clones:
            now = [tensor._version for tensor in _tensors(self._handed)]
            self.clones = now != self._versions

    def clear(self) -> None:
        """Let the batches go."""
        self._batches.clear()
        self._handed = None


def _shell(value: Any, clones: bool = False, depth: int = _DEPTH) -> Any:
    """New containers, with the same tensors in them or with copies."""
    if _is_tensor(value):
        return value.detach().clone() if clones else value
    if not depth:
        return value
    if type(value) in (list, tuple):
        return type(value)(_shell(one, clones, depth - 1) for one in value)
    if type(value) is dict:
        return {key: _shell(one, clones, depth - 1) for key, one in value.items()}
    try:
        return copy.copy(value) if hasattr(value, "__dict__") else value
    except Exception:  # the user's own class
        return value


def _tensors(value: Any, depth: int = _DEPTH) -> list[Any]:
    if _is_tensor(value):
        return [] if value.is_inference() else [value]
    if not depth:
        return []
    if isinstance(value, (list, tuple)):
        parts = list(value)
    elif hasattr(value, "values") and callable(value.values):
        parts = list(value.values())
    else:
        return []
    return [tensor for one in parts for tensor in _tensors(one, depth - 1)]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, sys.modules["torch"].Tensor)
