"""A training of several ranks: a sharded backbone (FSDP), and a head in DistributedDataParallel.

`python -m tests.probe.programs_mixed FOLDER`, with torchrun's variables or by torchrun. Each rank
writes `told-RANK` to FOLDER: its losses bit by bit, and the head's buckets. Nothing in it is of
dlqueue.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

DDP: Any = torch.nn.parallel.DistributedDataParallel
WIDTH, LAYERS, STEPS = 64, 6, 6  # 16 KiB a layer


def layers() -> Any:
    """The head, and the backbone."""
    linear: Any = torch.nn.Linear
    parts = [(linear(WIDTH, WIDTH, False), torch.nn.Tanh()) for _ in range(LAYERS)]
    return torch.nn.Sequential(*[part for both in parts for part in both])


def main() -> None:
    """Train, and write."""
    torch.distributed.init_process_group("gloo")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    torch.manual_seed(0)
    backbone, head = layers(), layers()
    fully_shard(backbone, mesh=init_device_mesh("cpu", (world,)))
    head = DDP(head)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.5) for one in (backbone, head)]
    data = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(rank))
    losses = []
    for _ in range(STEPS):
        loss = (head(backbone(data)) - data.roll(1, 1).tanh()).square().mean()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item().hex())
    sizes = str(head._get_ddp_logging_data()["rebuilt_bucket_sizes"]).split(", ")
    told: dict[str, Any] = {"losses": losses, "buckets": [int(size) >> 10 for size in sizes]}
    told["asked"] = os.environ.get("DLQUEUE_BUCKETS")
    (Path(sys.argv[1]) / f"told-{rank}").write_text(json.dumps(told), encoding="ascii")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
