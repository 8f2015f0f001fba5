"""Latency and bandwidth between neighbouring ranks, by messages of two sizes."""

from __future__ import annotations

import time
from statistics import median

import torch
import torch.distributed as dist

SMALL, LARGE = 1 << 10, 1 << 21  # bytes
REPEATS = 5


def link(device: torch.device) -> tuple[float, float]:
    """Seconds of a message, and bytes a second, of the slowest pair of ranks; on all ranks.

    Both ways at once, as halos go. Collective over at least two ranks.
    """
    usual = [_exchange_s(size, device) for size in (SMALL, LARGE)]
    worst = torch.tensor(usual, dtype=torch.float64, device=device)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    small, large = worst.tolist()
    return small, (LARGE - SMALL) / max(large - small, 1e-9)


def _exchange_s(size: int, device: torch.device) -> float:
    """The median of some exchanges with the other rank of this rank's pair, but the first."""
    peer = dist.get_rank() ^ 1
    sent, took = torch.zeros(size, dtype=torch.uint8, device=device), [0.0]
    for _ in range(1 + REPEATS):
        dist.barrier()
        begin = time.perf_counter()
        if peer < dist.get_world_size():
            got = torch.empty_like(sent)
            calls = [dist.P2POp(dist.isend, sent, peer), dist.P2POp(dist.irecv, got, peer)]
            for request in dist.batch_isend_irecv(calls):
                request.wait()
            if device.type == "cuda":
                torch.cuda.synchronize()
            took.append(time.perf_counter() - begin)
    return median(took[2:] or took)
