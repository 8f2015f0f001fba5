"""Time for which the device still computes a pass whose loop asks for no batch more.

A loop that asks for no result runs ahead of its device, by a whole pass where a CUDA graph makes up
its step, and waits for it afterwards. Two events of CUDA's lie on its stream, after the first batch
and at the pass's end: they are further apart than the same moments on the host by what was left.
Nobody waits for them, and none is asked for while a graph is recorded, which that would break.
"""

from __future__ import annotations

import sys
import time
from typing import Any, NamedTuple


class _Moment(NamedTuple):
    """A moment of the host's, and the event that the device comes to later."""

    host_s: float
    event: Any


class DeviceTail:
    """Seconds of one pass; zero while the device has not come to its end."""

    def __init__(self) -> None:
        self._first: _Moment | None = None
        self._last: _Moment | None = None
        self._seconds = 0.0

    def begin(self) -> None:
        """The first batch was handed over, in the thread that trains."""
        self._first = _moment()

    def end(self) -> None:
        """There is no batch more."""
        if self._first is not None:
            self._last = _moment()

    def seconds(self) -> float:
        """Ask, without waiting, what was left at the pass's end."""
        if self._first is not None and self._last is not None:
            try:
                self._ask(self._first, self._last)
            except Exception:  # a step failed on the device: the job is told by its own calls
                self.close()
        return self._seconds

    def _ask(self, first: _Moment, last: _Moment) -> None:
        if _cuda() is not None and last.event.query():
            span_s = first.event.elapsed_time(last.event) / 1000
            self._seconds = max(0.0, span_s - (last.host_s - first.host_s))
            self.close()

    def close(self) -> None:
        """Keep to the answer so far: the next pass begins."""
        self._first = self._last = None


def _cuda() -> Any:
    """Torch's CUDA where it works already and this thread records no graph; else None."""
    cuda = sys.modules["torch"].cuda
    return cuda if cuda.is_initialized() and not cuda.is_current_stream_capturing() else None


def _moment() -> _Moment | None:
    try:
        cuda = _cuda()
        if cuda is None:
            return None
        event = cuda.Event(enable_timing=True)
        event.record()
    except Exception:  # as above
        return None
    return _Moment(time.perf_counter(), event)
