"""Losses of one rank of `buckets`, with torch's own buckets and with others.

    python -m contrib.bench.buckets.losses CAPS FILE

A small network learns for 50 steps with torch's own buckets, then from the same start with CAPS
(KiB, as DLQUEUE_BUCKETS has them). FILE gets a JSON list of the losses of each.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed

from contrib.bench.buckets.training import constructed

STEPS, WIDTH, LAYERS = 50, 256, 8


def losses(caps: str, rank: int) -> list[float]:
    """The loss of each step on one batch, which it learns; every rank has another."""
    torch.manual_seed(0)
    linear: Any = torch.nn.Linear
    layers = [part for _ in range(LAYERS) for part in (linear(WIDTH, WIDTH), torch.nn.Tanh())]
    module = constructed(torch.nn.Sequential(*layers), caps)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0, momentum=0.9)
    data = torch.randn(16, WIDTH, generator=torch.Generator().manual_seed(rank))
    found = []
    for _ in range(STEPS):
        loss = (module(data) - data.roll(1, 1).tanh()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


def main() -> None:
    """Learn twice, and write all losses."""
    caps, path = sys.argv[1], sys.argv[2]
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    told = {"losses": [losses(one, rank) for one in ("", caps)]}
    Path(path).write_text(json.dumps(told), encoding="ascii")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
