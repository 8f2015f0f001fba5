"""Time between two passes that is a part of the training.

A loop that plays, samples or lists files between short passes trains on other data each time, and
its user waits for that as for the steps. Between passes over the same data lies what each epoch
ends with: its user waits for it, too, as long as it computes and evaluates nothing (collects
garbage, adds up losses, moves a schedule). Validations, waiting for a disk or for a user are not
the training's.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

if TYPE_CHECKING:
    from .one_pass import Pass

_MOST_WRAPPED = 8


class Evaluations(NamedTuple):
    """Validations so far: seconds of those that are left out, and when the latest one began."""

    aside_s: float
    latest: float


class Gathering:
    """The latest pass of a loader, and over which data it went."""

    def __init__(self) -> None:
        self._data: Callable[[], Any] | None = None
        self._latest: Pass | None = None

    def before(
        self, current: Pass, data: Any, start_s: float, asked: Any, evaluations: Evaluations
    ) -> float:
        """Seconds before the pass that begins, and before its start, which are the training's.

        `asked`: the pass that handed this thread's latest batch; another one's batches are not of
        this training.
        """
        former, self._latest = self._latest, current
        own, current.aside_s = _origin(data), evaluations.aside_s
        same, self._data = self._data is None or self._data() is own, _kept(own)
        if former is None or former is not asked or not former.steps:
            return 0.0
        ended_at = max(former.ended_at, former.stepped_at, former.last)
        aside_s = evaluations.aside_s - former.aside_s
        between_s = max(0.0, current.began - start_s - ended_at - aside_s)
        tail_s = former.tail.seconds()  # that pass's own, and counted there
        if not same:
            return max(0.0, between_s - tail_s)
        worked_s = max(0.0, current.worked_since(former) - start_s)
        counted_s = min(between_s, worked_s) if evaluations.latest <= ended_at else 0.0
        return max(0.0, counted_s - tail_s)


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
