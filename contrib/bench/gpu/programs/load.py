"""Puts known loads on the device, one for each line of its stdin.

    python -m contrib.bench.gpu.programs.load DEVICE KIND...

It measures a round of each kind alone, and prints a line. For each line of its stdin, {"kind",
"seconds", "share", "hold_mib", "gap_s"}, it runs rounds of that kind for so long, and prints a
line. Where `share` is below 1, it is idle for the rest of a period; after each round for `gap_s`.
"""

import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from contrib.bench.gpu.programs.device import Device

ROUND_S = 0.005  # about, alone
PERIOD_S = 0.04  # of a share: far below what NVML looks at
TRIES = 5
Kernel = Callable[[], object]


class Rounds:
    """A kind's round: so many of its kernels as take ROUND_S alone."""

    def __init__(self, device: Device, kernel: Kernel, bytes_: int = 0) -> None:
        self._device, self._kernel = device, kernel
        self.kernels = 1
        alone_s = self._tried()
        self.kernels = max(1, round(ROUND_S / max(alone_s, 1e-7)))
        self.alone_s = self._tried()
        self.bytes = bytes_ * self.kernels

    def run(self) -> float:
        """One round, waited for; seconds by the device's marks."""
        first = self._device.mark()
        for _ in range(self.kernels):
            self._kernel()
        last = self._device.mark()
        self._device.synchronise()
        return self._device.between(first, last)

    def _tried(self) -> float:
        self.run()
        return median(self.run() for _ in range(TRIES))


def _compute(device: Device, kind: torch.dtype) -> tuple[Kernel, int]:
    width = device.size(2048, 128)
    square = torch.randn(width, width, device=device.name).to(kind)
    product = torch.empty_like(square)
    return lambda: torch.mm(square, square, out=product), 0


def _copy(device: Device) -> tuple[Kernel, int]:
    source = torch.zeros(device.size(1 << 26, 1 << 20), device=device.name)
    target = torch.zeros_like(source)
    return lambda: target.copy_(source), 2 * 4 * source.numel()


def _small(device: Device) -> tuple[Kernel, int]:
    few = torch.randn(1 << 12, device=device.name)
    return lambda: few.mul_(1.0), 0


def _upload(device: Device) -> tuple[Kernel, int]:
    own = torch.zeros(device.size(1 << 24, 1 << 18), pin_memory=device.is_cuda)
    sent = torch.zeros_like(own, device=device.name)
    return lambda: sent.copy_(own, non_blocking=True), 4 * own.numel()


KERNELS: dict[str, Callable[[Device], tuple[Kernel, int]]] = {
    "compute": lambda device: _compute(device, torch.float32),
    "tensor": lambda device: _compute(device, torch.bfloat16),
    "copy": _copy,
    "small": _small,
    "upload": _upload,
}
"""One kernel of each kind, with the bytes that it moves."""


def ran(rounds: Rounds, seconds: float, share: float, gap_s: float) -> dict[str, Any]:
    """Rounds of one kind for so long."""
    began = time.perf_counter()
    count, busy_s = 0, 0.0
    while (now := time.perf_counter()) < began + seconds:
        until = now + share * PERIOD_S
        while True:
            busy_s += rounds.run()
            count += 1
            if gap_s:
                time.sleep(gap_s)
            if time.perf_counter() + rounds.alone_s / 2 >= until:
                break
        if share < 1:
            time.sleep(max(0.0, now + PERIOD_S - time.perf_counter()))
    return {
        "kernels": count * rounds.kernels,
        "wall_s": time.perf_counter() - began,
        "busy_s": busy_s,
        "own_s": count * rounds.alone_s,
        "gib": count * rounds.bytes / 2**30,
    }


def main() -> None:
    """Measure alone, then run loads until stdin closes."""
    device = Device(sys.argv[1])
    every = {kind: Rounds(device, *KERNELS[kind](device)) for kind in sys.argv[2:]}
    print(json.dumps({kind: one.alone_s for kind, one in every.items()}), flush=True)
    held: list[Any] = []
    _hold(device, 0, held)  # what was made on the way is given back
    for line in sys.stdin:
        told = json.loads(line)
        _hold(device, int(told["hold_mib"]), held)
        limits = (float(told[name]) for name in ("seconds", "share", "gap_s"))
        found = ran(every[told["kind"]], *limits)
        print(json.dumps(found), flush=True)


def _hold(device: Device, mib: int, held: list[Any]) -> None:
    """Have `held` so much memory of the device, and give all other back to it."""
    if mib and mib == sum(one.numel() for one in held) >> 20:
        return
    held.clear()  # the only one to know it: else it would stay in torch's cache
    if device.is_cuda:
        torch.cuda.empty_cache()
    if mib:
        held.append(torch.zeros(mib << 20, dtype=torch.uint8, device=device.name))


if __name__ == "__main__":
    main()
