"""Trainings whose loop runs ahead of a device that a clock stands in for; see test_device_tail.

    python -m tests.probe.programs_ahead

Prints samples and seconds of all passes, until the device had done each, as JSON.
"""

# ruff: noqa: T201 - prints its own count, as jobs do

import json
import time
from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.probe.loader_frame import Numbers

BATCH, BATCHES, PASSES, STEP_S = 8, 20, 3, 0.02


class Device:
    """Has work until this moment; events lie in the order of its work, as CUDA's do."""

    busy_until = 0.0

    @classmethod
    def compute(cls, seconds: float) -> None:
        """One step more, for which nobody waits."""
        cls.busy_until = max(cls.busy_until, time.perf_counter()) + seconds

    @classmethod
    def synchronise(cls) -> None:
        """Wait for all of it."""
        time.sleep(max(0.0, cls.busy_until - time.perf_counter()))


class Event:
    """As torch.cuda's."""

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        self.at = 0.0

    def record(self) -> None:
        """Pass by once all work so far is done."""
        self.at = max(Device.busy_until, time.perf_counter())

    def query(self) -> bool:
        """Tell whether it has passed by."""
        return time.perf_counter() >= self.at

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds."""
        assert end.query()
        return (end.at - self.at) * 1000


def stand_in(cuda: Any) -> None:
    """Have torch's CUDA answer by this device."""
    cuda.is_initialized = lambda: True
    cuda.is_current_stream_capturing = lambda: False
    cuda.get_device_name = lambda: "a clock"
    cuda.Event = Event


def main() -> None:
    """Train."""
    stand_in(torch.cuda)
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], 0.1)
    loader: Any = DataLoader(Numbers(length=BATCH * BATCHES), BATCH)
    check: Any = DataLoader(Numbers(length=BATCH * 2), BATCH)
    taken_s = 0.0
    for _ in range(PASSES):
        began = time.perf_counter()
        for batch in loader:
            weight.grad = batch.float().mean().reshape(1)
            optimizer.step()
            Device.compute(STEP_S)
        Device.synchronise()
        taken_s += time.perf_counter() - began
        with torch.no_grad():
            for _ in check:
                time.sleep(STEP_S)
    print(json.dumps({"samples": PASSES * BATCH * BATCHES, "seconds": taken_s}))


if __name__ == "__main__":
    main()
