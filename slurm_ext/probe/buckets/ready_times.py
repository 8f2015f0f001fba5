"""Time at which each gradient is ready within the backward pass, by hooks that a few passes have.

A hook takes a time stamp: of the host for gradients on CPUs, of the stream (an event) for those on
GPUs, where the host runs ahead. Passes that are not synchronised are left out.
"""

from __future__ import annotations

import sys
import time
import weakref
from statistics import median
from typing import Any, Callable

PASSES = 5  # that are measured
_COLD = 3  # passes before them: connections, torch's first buckets
_MOST_PASSES = 40  # that are looked at; a model with unused parameters has no whole one
MOST_GROUPS = 192  # gradients that are ready one after the other are one where there are more


class ReadyTimes:
    """Seconds from each gradient to the last one of its backward pass; keeps no parameter alive."""

    def __init__(self, module: Any) -> None:
        parameters = [p for p in module.parameters() if p.requires_grad]
        self._module = weakref.ref(module)
        self._bytes = [p.nelement() * p.element_size() for p in parameters]
        self._begun = 0
        self._marks: dict[int, Any] = {}  # of the pass under way, by the parameter's number
        self._whole: list[dict[int, Any]] = []  # passes whose stamps are no seconds yet
        self._groups: list[tuple[int, float]] = []
        self._mark, self._seconds = _marker(parameters)
        self._hooks = [
            p.register_post_accumulate_grad_hook(self._hook(number))
            for number, p in enumerate(parameters)
        ]

    def _hook(self, number: int) -> Callable[[Any], None]:
        def ready(_: Any) -> None:
            try:
                self._ready(number)
            except Exception:  # an unknown device: the job's own pass goes on
                self.stop()

        return ready

    def _ready(self, number: int) -> None:
        module = self._module()
        if module is None or not module.require_backward_grad_sync:
            return
        if not self._marks or number in self._marks:
            self._begun += 1
            self._marks = {}
        self._marks[number] = self._mark() if self._begun > _COLD else None
        if len(self._marks) == len(self._bytes) and self._begun > _COLD:
            self._whole.append(self._marks)
            self._marks = {}
        if len(self._whole) >= PASSES or self._begun > _MOST_PASSES:
            self.stop()

    def stop(self) -> None:
        """Take the hooks away."""
        hooks, self._hooks = self._hooks, []
        for hook in hooks:
            hook.remove()

    def groups(self) -> list[tuple[int, float]]:
        """Bytes that became ready together, and seconds before the last ones; in their order."""
        if not self._groups and not self._hooks:
            passes = [seconds for marks in self._whole if (seconds := self._seconds(marks))]
            self._groups = _joined(self._in_order(passes)) if passes else []
        return self._groups

    def _in_order(self, passes: list[dict[int, float]]) -> list[tuple[int, float]]:
        numbers = range(len(self._bytes))
        before = [median([one[number] for one in passes]) for number in numbers]
        order = sorted(numbers, key=lambda number: -before[number])
        return [(self._bytes[number], before[number]) for number in order]


def _joined(ready: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most MOST_GROUPS: neighbours join until each has its share of the bytes."""
    least = sum([size for size, _ in ready]) / MOST_GROUPS if len(ready) > MOST_GROUPS else 0.0
    groups: list[tuple[int, float]] = []
    held = 0
    for size, before_s in ready:
        held += size
        if held >= least:
            groups.append((held, before_s))
            held = 0
    if held and groups:
        groups[-1] = (groups[-1][0] + held, ready[-1][1])
    return groups


def _marker(parameters: list[Any]) -> tuple[Callable[[], Any], Callable[..., dict[int, float]]]:
    """A function that takes a time stamp, and one from stamps to seconds before the last one."""
    if parameters and parameters[0].device.type == "cuda":
        cuda = sys.modules["torch"].cuda

        def mark() -> Any:
            event = cuda.Event(enable_timing=True)
            event.record()
            return event

        return mark, _by_events
    return time.perf_counter, _by_clock


def _by_clock(marks: dict[int, float]) -> dict[int, float]:
    last = max(marks.values())
    return {number: last - mark for number, mark in marks.items()}


def _by_events(marks: dict[int, Any]) -> dict[int, float]:
    """None where the GPU has not come so far: nobody waits for it."""
    if not all(event.query() for event in marks.values()):
        return {}
    first = next(iter(marks.values()))
    since = {number: first.elapsed_time(event) / 1000 for number, event in marks.items()}
    last = max(since.values())
    return {number: last - seconds for number, seconds in since.items()}
