"""The device of a program: its synchronisation, and the time between two marks on it."""

import time
from typing import Any

import torch


class Device:
    """A GPU by CUDA's events, or the CPU by its clock."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_cuda = name == "cuda"
        torch.set_num_threads(1)

    def synchronise(self) -> None:
        """Wait until it has nothing left to do."""
        if self.is_cuda:
            torch.cuda.synchronize()

    def mark(self) -> Any:
        """A moment of the device's own time line."""
        if not self.is_cuda:
            return time.perf_counter()
        cuda: Any = torch.cuda  # its events have no types
        event = cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, first: Any, second: Any) -> float:
        """Seconds between two marks that have passed."""
        if not self.is_cuda:
            return float(second - first)
        return float(first.elapsed_time(second)) / 1000

    def size(self, on_gpu: int, on_cpu: int) -> int:
        """A problem's size on this device."""
        return on_gpu if self.is_cuda else on_cpu
