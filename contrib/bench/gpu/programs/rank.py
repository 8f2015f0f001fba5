"""One of several ranks on a GPU: steps of gaps on the host and kernels, and one reduction each.

    python -m slurm_ext.ranks --ranks-per-gpu R rank.py DEVICE SECONDS REPEATS SHARE...

A step of STEP_S has kernels for SHARE of it, alone; its gradients are reduced as the product's
ranks reduce theirs. Rank 0 prints a line for each repeat, share and mode: {"share", "held",
"ranks", "steps", "wall_s", "kernel_s", "host_s"}. `held`: the global batch is held, so that a
rank's kernels are fewer. Of several ranks, each line has the seconds of a `reduction` and whether
it was in memory that the ranks share (`shared`: by CUDA's IPC on a GPU; else gloo's).
"""

import json
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from contrib.bench.gpu.programs.device import Device
from slurm_ext.ranks.reduction import TwoLevelReduction

STEP_S = 0.03
GAPS = 6  # of a step, each followed by its part of the kernels
GRADIENTS = 1 << 20
TRIES = 20
_START_SUMS = 3


class Rank:
    """This rank's device, its kernel and its gradients."""

    def __init__(self, device: Device) -> None:
        self.ranks, self.first = dist.get_world_size(), dist.get_rank() == 0
        self._device = device
        width = device.size(2048, 128)
        self._square = torch.randn(width, width, device=device.name)
        self._product = torch.empty_like(self._square)
        self._gradients = torch.ones(GRADIENTS, device=device.name)
        self._two = TwoLevelReduction(self.ranks) if self.ranks > 1 else None
        self.kernel_s = self._agreed(self._alone_s())
        self.reduction_s = self._reduced_s()

    def _kernel(self) -> None:
        torch.mm(self._square, self._square, out=self._product)

    def _alone_s(self) -> float:
        """Seconds of a kernel, by rank 0 while the others wait."""
        found = 0.0
        if self.first:
            found = median(self._tried() for _ in range(TRIES))
        dist.barrier()
        return found

    def _tried(self) -> float:
        first = self._device.mark()
        self._kernel()
        last = self._device.mark()
        self._device.synchronise()
        return self._device.between(first, last)

    def _reduced_s(self) -> float:
        """Seconds of a mean of the gradients; the first ones pay for the memory."""
        if self._two is None:
            return 0.0
        for number in range(_START_SUMS + TRIES):
            if number == _START_SUMS:
                dist.barrier()
                began = time.perf_counter()
            self._two.mean_(self._gradients)
        self._device.synchronise()
        return (time.perf_counter() - began) / TRIES

    def _agreed(self, seconds: float) -> float:
        told = torch.tensor([seconds], dtype=torch.float64)
        dist.broadcast(told, 0)
        return float(told[0])

    def steps(self, share: float, held: bool, seconds: float) -> dict[str, Any]:
        """Steps for about so long."""
        count = max(3, round(seconds / STEP_S))
        whole = max(GAPS, round(share * STEP_S / self.kernel_s))
        kernels = max(GAPS, round(whole / self.ranks)) if held else whole
        host_s = (1 - share) * STEP_S
        dist.barrier()
        began = time.perf_counter()
        for _ in range(count):
            self._step(kernels, host_s)
        dist.barrier()
        wall_s = time.perf_counter() - began
        found = {"share": share, "held": held, "ranks": self.ranks, "steps": count}
        found |= {"wall_s": wall_s, "kernel_s": whole * self.kernel_s, "host_s": host_s}
        shared = self._two is not None and self._two.shares(self._gradients.device.type)
        return found | {"reduction_s": self.reduction_s, "shared": shared}

    def _step(self, kernels: int, host_s: float) -> None:
        done = 0
        for gap in range(1, GAPS + 1):
            time.sleep(host_s / GAPS)
            upto = kernels * gap // GAPS
            for _ in range(upto - done):
                self._kernel()
            done = upto
            self._device.synchronise()
        if self._two is not None:
            self._two.mean_(self._gradients)


def measured(rank: Rank, shares: list[float], seconds: float, tell: Callable[[Any], None]) -> None:
    """Every share, with the batch of a rank as it is and with the global one held."""
    for share in shares:
        for held in (False, True)[: 2 if rank.ranks > 1 else 1]:
            tell(rank.steps(share, held, seconds))


def main() -> None:
    """Measure, and print what rank 0 saw."""
    device, seconds, repeats = Device(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    shares = [float(word) for word in sys.argv[4:]]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a machine's name may have no address
    dist.init_process_group("gloo")
    rank = Rank(device)

    def tell(found: Any) -> None:
        if rank.first:
            print(json.dumps(found), flush=True)

    measured(rank, shares, min(seconds, 0.1), lambda _: None)  # the first steps pay for starts
    for _ in range(repeats):
        measured(rank, shares, seconds, tell)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
