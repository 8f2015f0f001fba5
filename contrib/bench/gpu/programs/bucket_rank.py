"""One rank of a training that reduces gradients, with torch's buckets and others by turns.

    python -m contrib.bench.gpu.programs.bucket_rank DEVICE STEPS CAPS

Rank, world and address come from the environment, as torchrun sets them. CAPS is a JSON list of
the caps (KiB; "": torch's own) of each turn of STEPS steps; each turn's seconds of a step are a
line. Without caps it is one training as a job has it, under whatever probe there is.
"""

import json
import sys
import time
from typing import Any

import torch.distributed as dist
from torch.utils.data import DataLoader

from contrib.bench.buckets.training import DDP, constructed
from contrib.bench.gpu.programs.device import Device
from contrib.bench.gpu.programs.network import Steps
from contrib.bench.gpu.programs.samples import Ready

COLD = 4  # steps of a turn: connections, and torch's first buckets


def turn(device: Device, steps: Steps, count: int, batch: int) -> float:
    """Seconds of a step, by this rank's clock."""
    data: Any = Ready(steps.side)
    batches = iter(DataLoader(data, batch))
    for _ in range(COLD):
        steps.run(next(batches))
    device.synchronise()
    began = time.perf_counter()
    for _ in range(count):
        steps.run(next(batches))
    device.synchronise()
    return (time.perf_counter() - began) / count


def main() -> None:
    """Train, turn by turn."""
    device, count, caps = Device(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    dist.init_process_group("nccl" if device.is_cuda else "gloo")
    batch = device.size(32, 2)
    for each in caps or [None]:
        steps = Steps(device, DDP if each is None else lambda model, c=each: constructed(model, c))
        print(json.dumps({"step_s": turn(device, steps, count, batch)}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
