"""Steps of optimisers that a CUDA graph replays: no Python runs in it, and so no hook.

The step that is recorded into a graph is none yet; each replay of that graph is one.
"""

from __future__ import annotations

import functools
import sys
import time
import weakref
from typing import Any, Callable, ClassVar

Count = Callable[[Any, float], None]
_PLACE = "_dlqueue_steps"  # of a graph: its optimisers


class _Recording:
    """Optimisers whose steps the graph of this moment records."""

    optimisers: ClassVar[list[weakref.ref[Any]]] = []


def is_recorded(optimiser: Any, count: Count) -> bool:
    """True if this step went into a graph, whose replays are handed to `count` from now on."""
    cuda = sys.modules["torch"].cuda
    if not (cuda.is_initialized() and cuda.is_current_stream_capturing()):
        return False
    _follow(cuda.graphs.CUDAGraph, count)
    _Recording.optimisers.append(weakref.ref(optimiser))
    return True


def _follow(kind: Any, count: Count) -> None:
    """Follow the ends of recordings and the replays of torch's class of graphs, once."""
    if hasattr(kind.replay, "__wrapped__"):
        return
    kind.capture_end = _ended(kind.capture_end)
    kind.replay = _replayed(kind.replay, count)


def _ended(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def capture_end(self: Any) -> Any:
        recorded, _Recording.optimisers = _Recording.optimisers, []
        self.__dict__[_PLACE] = recorded
        return original(self)

    return capture_end


def _replayed(original: Callable[[Any], Any], count: Count) -> Callable[[Any], Any]:
    clock = time.perf_counter

    @functools.wraps(original)
    def replay(self: Any) -> Any:
        result = original(self)
        try:
            for known in self.__dict__.get(_PLACE, ()):
                optimiser = known()
                if optimiser is not None:
                    count(optimiser, clock())
        except Exception:  # noqa: S110 - the job's own step is done
            pass
        return result

    return replay
