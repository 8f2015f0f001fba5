"""Trains for so long, once for each line of its stdin, and tells its clock and the probe's.

    python -m contrib.bench.gpu.programs.training DEVICE FOLDER

Orders: {"seconds", "source" (jpeg, ready), "workers", "batch", "way"}. Ways: `plain` (the probe's
methods are taken out), `probed`, `marked` (marks on the device around each wait), `synchronised`
(the device is waited for before and after each wait), `profiled` (torch's profiler looks on). The
first batches are left out of all clocks. Answers: {"batches", "samples", "wall_s", "wait_s" and
"step_s" of a batch, "marks_wait_s", "probe", "profile"}; a clock that was not there is null.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from contrib.bench.gpu.programs import look_on
from contrib.bench.gpu.programs.device import Device
from contrib.bench.gpu.programs.network import Steps
from contrib.bench.gpu.programs.probe_inside import ProbeInside, between
from contrib.bench.gpu.programs.samples import Jpegs, Ready, made

COLD = 6  # batches: workers start, the prefetch queue empties, kernels are chosen


class Clock:
    """Seconds of waits, by the host and by marks on the device."""

    def __init__(self, device: Device, way: str) -> None:
        self._device, self._way = device, way
        self.wait_s = 0.0
        self._marks: list[Any] = []

    def next(self, batches: Any) -> Any:
        """The next batch."""
        asked = self._border()
        batch = next(batches)
        self.wait_s += self._border() - asked
        return batch

    def _border(self) -> float:
        if self._way == "synchronised":
            self._device.synchronise()
        if self._way == "marked":
            self._marks.append(self._device.mark())
        return time.perf_counter()

    def marks_wait_s(self) -> float | None:
        """Seconds of all waits on the device's own time line, once it has passed them."""
        pairs = zip(self._marks[::2], self._marks[1::2], strict=True)
        waits = [self._device.between(first, second) for first, second in pairs]
        return sum(waits) if waits else None


class Training:
    """One model and its loaders, which stay from order to order."""

    def __init__(self, device: Device, folder: Path) -> None:
        self._device, self._steps, self._folder = device, Steps(device), folder
        self._loaders: dict[tuple[Any, ...], Any] = {}
        self._probe = ProbeInside()

    def loader(self, source: str, workers: int, batch: int) -> Any:
        """The loader of these settings."""
        key = (source, workers, batch)
        if key not in self._loaders:
            side = self._steps.side
            data: Any = Jpegs(made(self._folder), side) if source == "jpeg" else Ready(side)
            pinned = self._device.is_cuda
            self._loaders[key] = DataLoader(data, batch, num_workers=workers, pin_memory=pinned)
        return self._loaders[key]

    def run(self, seconds: float, source: str, workers: int, batch: int, way: str) -> Any:
        """One order's answer."""
        loader = self.loader(source, workers, batch)
        with self._probe.methods(taken_out=way == "plain"):
            batches = iter(loader)
            for _ in range(COLD):
                self._steps.run(next(batches))
            self._device.synchronise()
            with look_on.profiler(way == "profiled", self._device.is_cuda) as profile:
                before, clock = self._probe.sums(), Clock(self._device, way)
                count, wall_s = self._timed(batches, clock, seconds)
                after = self._probe.sums()
        del batches  # its workers end before the answer
        marks_s = clock.marks_wait_s()
        return {
            "batches": count,
            "samples": count * batch,
            "wall_s": wall_s,
            "wait_s": clock.wait_s / count,
            "step_s": (wall_s - clock.wait_s) / count,
            "marks_wait_s": None if marks_s is None else marks_s / count,
            "probe": None if way == "plain" else between(before, after),
            "profile": look_on.told(profile, count) if profile else None,
        }

    def _timed(self, batches: Any, clock: Clock, seconds: float) -> tuple[int, float]:
        """Number of batches, and seconds until the device had done them."""
        count, began = 0, time.perf_counter()
        while not count or time.perf_counter() < began + seconds:
            self._steps.run(clock.next(batches))
            count += 1
        self._device.synchronise()
        return count, time.perf_counter() - began

    def tell(self) -> None:
        """Have the probe write what it knows by now."""
        self._probe.write()


def main() -> None:
    """Train, order by order, until stdin closes."""
    training = Training(Device(sys.argv[1]), Path(sys.argv[2]))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        found = training.run(**json.loads(line))
        training.tell()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
