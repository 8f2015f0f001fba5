"""NVML's and GPM's counters of one GPU over a stretch of time, by the node's own reader."""

import time
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Any, Self

from contrib.bench.gpu.report import AbsentError
from slurm_ext.node.counters.gpu.nvml import NvmlClient
from slurm_ext.node.counters.gpu.totals import GpuTotals

EVERY_S = 0.2
ANSWER_S = 5.0


class Span:
    """Counters of one stretch: of the whole GPU, and of each set of processes."""

    def __init__(self, uuid: str, parts: Sequence[Collection[int]]) -> None:
        self._uuid = uuid
        self._parts = [(pids, GpuTotals()) for pids in (*parts, ())]
        self._first: float | None = None
        self._last = 0.0
        self.seen: set[int] = set()  # pids that NVML told of

    def see(self, reading: dict[str, Any], now: float) -> None:
        """Take one reading. Raises AbsentError where the GPU tells nothing."""
        covers_s = 0.0 if self._first is None else now - self._last
        self._first, self._last = self._first if self._first is not None else now, now
        self.seen |= {int(pid) for pid in reading.get("processes") or ()}
        for pids, totals in self._parts:
            totals.see(reading, covers_s, pids)
            if totals.fault:
                raise AbsentError(totals.fault)

    def of(self, name: str, part: int = -1) -> float | None:
        """A counter (columns.GPU_UNITS); of a part, of its processes alone."""
        return self._parts[part][1].totals(self._uuid).get(f"{name}@{self._uuid}", ("", None))[1]

    @property
    def seconds(self) -> float:
        """From the first reading to the last one."""
        return self._last - (self._first or self._last)

    @property
    def watts(self) -> float | None:
        """Mean power by the energy meter."""
        joules = self.of("gpu_energy")
        return None if joules is None or self.seconds <= 0 else joules / self.seconds


class Gauge:
    """Asks for one GPU's readings until it is closed."""

    def __init__(self, uuid: str) -> None:
        self._uuid, self._nvml = uuid, NvmlClient()
        Span(uuid, ()).see(self.reading(), 0.0)  # one that tells nothing is no gauge

    def reading(self) -> dict[str, Any]:
        """One reading now. Raises AbsentError."""
        deadline = time.monotonic() + ANSWER_S
        reply = None
        while reply is None and self._nvml.why is None and time.monotonic() < deadline:
            if self._nvml.idle():
                self._nvml.ask({"read": [self._uuid]})
            reply = self._nvml.answer(deadline - time.monotonic())
        if reply is None:
            raise AbsentError(f"NVML: {self._nvml.why or 'it did not answer'}")
        figures: dict[str, Any] = reply.get("read", {}).get(self._uuid, {})
        if "refused" in figures:
            raise AbsentError(f"NVML: {figures['refused']}")
        return figures

    def over(
        self, seconds: float, *parts: Collection[int], sleep: Callable[[float], None] = time.sleep
    ) -> Span:
        """Counters of the next `seconds`."""
        span = Span(self._uuid, parts)
        end_s = time.monotonic() + seconds
        while True:
            reading = self.reading()
            now = time.monotonic()
            span.see(reading, now)
            if now >= end_s:
                return span
            sleep(min(EVERY_S, max(0.0, end_s - now)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._nvml.close()
