"""Torch's profiler beside a training: its own view of waits for data, and of the device's work."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from torch import profiler as torch_profiler

NEXT = "enumerate(DataLoader)"  # torch's name of every DataLoader's __next__


@contextlib.contextmanager
def profiler(wanted: bool, is_cuda: bool) -> Iterator[Any]:
    """A profiler while the block runs, if it is wanted."""
    if not wanted:
        yield None
        return
    kinds = torch_profiler.ProfilerActivity
    with torch_profiler.profile(activities=[kinds.CPU, *([kinds.CUDA] if is_cuda else [])]) as one:
        yield one


def told(profile: Any, batches: int) -> dict[str, float | None]:
    """Seconds of a batch: waits by torch's own mark, and the device's time with something to do."""
    events = profile.events()
    waits = [each.time_range for each in events if each.name.startswith(NEXT)]
    kernels = [each.time_range for each in events if "cuda" in str(each.device_type).lower()]
    works = kernels or [each.time_range for each in events if each.name.startswith("aten::")]
    return {
        "waits": len(waits),
        "wait_s": covered_s(waits) / batches if waits else None,
        "busy_s": covered_s(works) / batches if works else None,
        "by_kernels": bool(kernels),
    }


def covered_s(ranges: Iterable[Any]) -> float:
    """Seconds that the ranges, in microseconds, cover together."""
    whole, end = 0.0, float("-inf")
    for one in sorted(ranges, key=lambda each: float(each.start)):
        whole += max(0.0, one.end - max(one.start, end))
        end = max(end, one.end)
    return whole / 1e6
