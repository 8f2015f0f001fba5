"""One rank of a training of `stalls`, with its own clock.

    python -m contrib.bench.stalls.training INJECTED STEPS FILE

INJECTED is a JSON object of configurations.Injected. Rank, world and address come from the
environment, as torchrun sets them. FILE gets a JSON object: seconds of each step's wait, its
computing and what it waited after its last gradient, and the workers' seconds for a batch.
"""

import json
import mmap
import os
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch.utils.data import DataLoader

from contrib.bench.common.asleep import Asleep
from contrib.bench.stalls.configurations import BATCH, LAYER_BYTES, LAYERS, Injected

_WORKED = struct.Struct("=4d")  # samples, wall, CPU and asleep seconds
_MOST_WORKERS = 16
_WIDTH = int((LAYER_BYTES / 4) ** 0.5)


class Samples:
    """Samples that sleep and spin; each process adds up its own seconds in a mapped file."""

    def __init__(self, injected: Injected, length: int, path: str) -> None:
        self.injected, self.length, self.path = injected, length, path
        self._file: Any = None

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, _: int) -> Any:
        began, asleep = time.perf_counter(), 0.0
        if self.injected.sleep_s:
            time.sleep(self.injected.sleep_s)
            asleep = time.perf_counter() - began
        spun = _spin(self.injected.spin_s)
        self._note(time.perf_counter() - began, spun, asleep)
        return torch.zeros(_WIDTH)

    def _note(self, wall_s: float, cpu_s: float, asleep_s: float) -> None:
        if self._file is None:
            with open(self.path, "r+b") as file:  # noqa: PTH123 - its handle is mapped
                self._file = mmap.mmap(file.fileno(), _WORKED.size * _MOST_WORKERS)
        info = torch.utils.data.get_worker_info()
        place = _WORKED.size * (0 if info is None else info.id % _MOST_WORKERS)
        before = _WORKED.unpack_from(self._file, place)
        more = (1.0, wall_s, cpu_s, asleep_s)
        _WORKED.pack_into(self._file, place, *(a + b for a, b in zip(before, more, strict=True)))


def _spin(seconds: float) -> float:
    """Use so many seconds of CPU; return them."""
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass
    return time.thread_time() - began


def _started(injected: Injected) -> Any:
    def init(_: int) -> None:
        time.sleep(injected.init_s)
        if injected.one_core:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    return init


class Model(torch.nn.Module):
    """Layers of 1 MiB of gradients, each of which sleeps its share of the step."""

    def __init__(self, compute_s: float) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            [torch.nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(LAYERS)]
        )
        self.forward_s = compute_s / 3 / LAYERS
        self.backward_s = 2 * compute_s / 3 / LAYERS
        self.ready_s = 0.0  # when the latest gradient was there
        for parameter in self.parameters():
            hooked: Any = parameter
            hooked.register_post_accumulate_grad_hook(self._ready)

    def _ready(self, _: Any) -> None:
        self.ready_s = time.perf_counter()

    def forward(self, data: Any) -> Any:
        """Through all layers."""
        asleep: Any = Asleep.apply
        for layer in self.layers:
            data = layer(asleep(data, self.forward_s, self.backward_s))
        return data


def train(injected: Injected, steps: int, worked: str) -> dict[str, Any]:
    """Train so many steps, by the program's own clock."""
    rank = int(os.environ.get("RANK", "0"))
    last = rank == injected.ranks - 1
    own = Model(injected.compute_s + (injected.slow_s if last else 0.0))
    synchronised = injected.ranks > 1 and injected.mbit > 0
    model: Any = torch.nn.parallel.DistributedDataParallel(own) if synchronised else own
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    length = (injected.batches or steps) * BATCH
    dataset: Any = Samples(injected, length, worked)
    init = _started(injected) if injected.workers else None
    loader: Any = DataLoader(
        dataset, batch_size=BATCH, num_workers=injected.workers, worker_init_fn=init
    )
    clock: dict[str, list[float]] = {"wait_s": [], "step_s": [], "exposed_s": [], "first": []}
    while len(clock["step_s"]) < steps:
        _epoch(loader, model, own, optimizer, clock)
    return clock


def _epoch(loader: Any, model: Any, own: Model, optimizer: Any, clock: dict[str, Any]) -> None:
    began = time.perf_counter()
    clock["first"].append(len(clock["step_s"]))
    for batch in loader:
        got = time.perf_counter()
        clock["wait_s"].append(got - began)
        optimizer.zero_grad()
        model(batch).sum().backward()
        clock["exposed_s"].append(max(0.0, time.perf_counter() - own.ready_s))
        optimizer.step()
        began = time.perf_counter()
        clock["step_s"].append(began - got)


def main() -> None:
    """Train, and write what the own clock and the workers say."""
    injected, steps, path = Injected(**json.loads(sys.argv[1])), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    os.environ["DLQUEUE_EMULATED"] = "1"  # for the probe: the step costs no cores
    if injected.ranks > 1:
        torch.distributed.init_process_group("gloo")
    with tempfile.NamedTemporaryFile() as worked:
        worked.truncate(_WORKED.size * _MOST_WORKERS)
        clock = train(injected, steps, worked.name)
        sums = [sum(one) for one in zip(*_WORKED.iter_unpack(worked.read()), strict=True)]
    clock["worked"] = [one * BATCH / max(1.0, sums[0]) for one in sums]
    Path(path).write_text(json.dumps(clock), encoding="ascii")
    if injected.ranks > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
