"""torch's profiler over the steps of one window: what their communication leaves exposed."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from typing import Any, Sequence

from . import exposed

_MOST_BYTES = 512 << 20  # of a trace that is read


class StepTracer:
    """Traces the steps of one window; `fault`: why it could not, once it could not."""

    def __init__(self, folder: str) -> None:
        self.fault: str | None = None
        self._path = os.path.join(folder, f"trace-{os.getpid()}.json")
        self._profiler: Any = None
        self._mark: Any = None

    def start(self) -> None:
        """Begin a window."""
        try:
            profiler = importlib.import_module("torch.profiler")
            self._profiler = profiler.profile(activities=_activities(profiler))
            self._profiler.start()
        except Exception as error:  # the training's own profiler may run
            self._fail(error)

    def mark(self) -> None:
        """End a step, if one is under way, and begin the next."""
        self._close()
        if self._profiler is not None:
            self._mark = importlib.import_module("torch.profiler").record_function(exposed.MARK)
            self._mark.__enter__()

    def stop(self, steps: Sequence[int]) -> list[dict[str, float]]:
        """Seconds of communication of these steps, by their number from the window's start on."""
        self._close()
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return []
        try:
            profiler.stop()
            profiler.export_chrome_trace(self._path)
            rows = exposed.by_step(self._events())
            return [rows[number] for number in steps]
        except Exception as error:
            self._fail(error)
            return []
        finally:
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _events(self) -> list[dict[str, Any]]:
        size = os.path.getsize(self._path)
        if size > _MOST_BYTES:
            raise ValueError(f"a trace of {size} bytes is more than is read")
        with open(self._path, "rb") as file:
            return list(json.load(file)["traceEvents"])

    def _close(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def _fail(self, error: Exception) -> None:
        self._profiler = None
        self.fault = self.fault or f"no trace: {type(error).__name__}: {error}"[:200]


def _activities(profiler: Any) -> list[Any]:
    """CPUs, whose operators are cheap to trace, and the accelerator if there is one."""
    cuda = getattr(sys.modules["torch"], "cuda", None)
    kinds = profiler.ProfilerActivity
    has_cuda = cuda is not None and cuda.is_initialized()
    return [kinds.CPU, kinds.CUDA] if has_cuda else [kinds.CPU]
