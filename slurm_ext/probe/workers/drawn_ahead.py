"""Bounds on how far a gated iterator draws its indices ahead of the training.

Other workers than the user's have other batches under way. Where drawing may depend on the
training, or note something that the program reads, an index is drawn when it would be as written.
"""

from __future__ import annotations

from typing import Any

from ..inspection import index_iterators


def too_early(iterator: Any, prefetch: int) -> bool:
    """True if a known sampler's next index is not to be drawn before its time as written."""
    gate = iterator._dlqueue_open.gate
    if gate.drawing is None:
        return False
    drawn = iterator._rcvd_idx + prefetch * gate.own - 1  # as written, by now
    return bool(iterator._send_idx >= gate.drawing.until(drawn))


class DrawnAhead:
    """Of one iterator: whether its indices stand already, which is seen once a pass."""

    def __init__(self) -> None:
        self._seen: Any = None  # the pass's indices, once the first one is drawn
        self._stands = False

    def window(self, iterator: Any, prefetch: int) -> int:
        """Batches that may be under way: `prefetch` for each open worker, or each as written."""
        workers = iterator._dlqueue_open
        own = self.as_written(iterator)
        return int(prefetch * workers.gate.own if own else workers.window(prefetch))

    def as_written(self, iterator: Any) -> bool:
        """True if a sampler of its own kind may look at the training: it draws as written."""
        gate, indices = iterator._dlqueue_open.gate, iterator._sampler_iter
        if not gate.own or gate.drawing is not None:
            return False
        if iterator._send_idx and self._seen is not indices:
            self._seen, self._stands = indices, _stand(indices)
        return not (self._seen is indices and self._stands)


def _stand(indices: Any) -> bool:
    try:
        return index_iterators.fixed(indices)
    except Exception:  # objects of another kind
        return False
