"""Time between two passes in which the data of the next one was made: a part of the training.

A loop that plays, samples or lists files between short passes trains on other data each time, and
its user waits for that as for the steps. Between passes over the same data lie validations and
savings, which are not the training's.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from .one_pass import Pass

_MOST_WRAPPED = 8


class Gathering:
    """The latest pass of a loader, and over which data it went."""

    def __init__(self) -> None:
        self._data: Callable[[], Any] | None = None
        self._latest: Pass | None = None

    def before(self, current: Pass, data: Any, began: float, asked: Any, aside_s: float) -> float:
        """Seconds for which the data of the pass that begins was made; 0 where it is as before.

        `asked`: the pass that handed this thread's latest batch; another one's batches are not of
        this training. `aside_s`: validations so far, which are no part of it either.
        """
        former, self._latest = self._latest, current
        own, current.aside_s = _origin(data), aside_s
        same, self._data = self._data is None or self._data() is own, _kept(own)
        if former is None or former is not asked or same or not former.steps:
            return 0.0
        ended_at = max(former.ended_at, former.stepped_at, former.last)
        return max(0.0, began - ended_at - (aside_s - former.aside_s))


def _origin(data: Any) -> Any:
    """The data behind parts of it, or the first tensor that it was made of."""
    for _ in range(_MOST_WRAPPED):
        tensors = getattr(data, "tensors", None)
        if isinstance(tensors, tuple) and tensors:
            return tensors[0]
        if not hasattr(data, "indices") or not hasattr(data, "dataset"):
            break
        data = data.dataset
    return data


def _kept(data: Any) -> Callable[[], Any] | None:
    """Return a way to the data while it lives; None: later data may be the same."""
    try:
        return weakref.ref(data)
    except TypeError:  # a list, which is not to be kept alive
        return None
