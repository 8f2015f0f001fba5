"""One rank of a training of `buckets`, with its own clock.

    python -m contrib.bench.buckets.training SHAPE STEPS CAPS FILE

CAPS is a JSON list: of each module the caps (KiB) that it is given by the probe's own wrapper, or
"" for torch's own. Each round is a step of every module, so that whatever else the machine does
slows all of them alike. An empty list is one training as a job has it, with what the environment
asks for. FILE gets a JSON object: seconds of each step of each module, and what reading torch's
logger took of them.
"""

import json
import sys
import time
from collections.abc import Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch.utils.data import DataLoader

from contrib.bench.buckets.shapes import WIDTH, Model
from slurm_ext.probe.buckets.agreement import Agreement
from slurm_ext.probe.buckets.construction import Constructions, signature_of
from slurm_ext.probe.buckets.request import BucketRequest

DDP: Any = torch.nn.parallel.DistributedDataParallel
BATCH, EPOCH = 4, 10
AGREEMENT = Agreement()


def constructed(module: Any, caps: str, *, must: bool = True) -> Any:
    """The module with these caps, as the probe constructs it; if they `must` be taken, or fail."""
    ranks = torch.distributed.get_world_size()
    asked = f"{signature_of(module)}:{ranks}:{caps}" if caps else ""
    arranged = Constructions(BucketRequest({"DLQUEUE_BUCKETS": asked}), AGREEMENT).arranged
    original = DDP.__init__

    def init(self: Any, *args: Any, **options: Any) -> None:
        args, options, made = arranged(original, (self, *args), options)
        if caps and must and (made is None or made.left_alone):
            raise ValueError(made.left_alone if made else "no caps")
        original(*args, **options)

    DDP.__init__ = init
    try:
        return DDP(module)
    finally:
        DDP.__init__ = original


def by_rounds(modules: Sequence[Any], rounds: int) -> list[list[float]]:
    """Seconds of each step of each module; every other round is in the opposite order."""
    clocks: list[list[float]] = [[] for _ in modules]
    order = [*enumerate(modules)]
    for _ in range(rounds):
        for place, module in order:
            clocks[place] += trained(module, 1)
        order.reverse()
    return clocks


def trained(module: Any, steps: int) -> list[float]:
    """Seconds of each step, from asking for its batch to the optimiser's end."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-6)
    data: Any = torch.utils.data.TensorDataset(torch.ones(EPOCH * BATCH, WIDTH))
    loader: Any = DataLoader(data, batch_size=BATCH)
    clock: list[float] = []
    began = time.perf_counter()
    for (batch,) in islice(chain.from_iterable(repeat(loader)), steps):
        optimizer.zero_grad()
        module(batch).sum().backward()
        optimizer.step()
        now = time.perf_counter()
        clock.append(now - began)
        began = now
    return clock


class Reading:
    """CPU seconds that the probe's reader of torch's logger took, hooks on gradients apart."""

    def __init__(self) -> None:
        self.seconds = 0.0
        probe: Any = sys.modules.get("_dlqueue_probe.attach")
        if probe is not None:
            sync = probe.ProbeState.turns.steps.sync
            sync.look = self._timed(sync.look)

    def _timed(self, look: Any) -> Any:
        def timed(*args: Any) -> None:
            began = time.thread_time()
            look(*args)
            self.seconds += time.thread_time() - began

        return timed


def main() -> None:
    """Train, and write what the own clock says."""
    shape, steps, caps, path = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    reading = Reading()
    if not caps:
        clocks = [trained(DDP(Model(shape)), steps)]
    else:
        clocks = by_rounds([constructed(Model(shape), each) for each in caps], steps)
    told = {"steps_s": clocks, "reading_s": reading.seconds}
    Path(path).write_text(json.dumps(told), encoding="ascii")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
