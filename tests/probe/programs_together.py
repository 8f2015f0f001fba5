"""Trainings of several processes, which hold their own clock beside the probe's.

`python -m tests.probe.programs_together NAME FILE` appends to FILE a line for each training: its
samples and the seconds from asking for its first batch to its last step.
"""

# ruff: noqa: D101, D102, D103 - written as jobs are, each named by what it does

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed
import torch.multiprocessing
from torch.utils.data import DataLoader, DistributedSampler

from tests.probe.in_children import ended_well, import_all_of_torch, in_a_child
from tests.probe.loader_frame import Numbers

STEP_S = 0.01


def sample_after(seconds: float, _: int) -> Any:
    time.sleep(seconds)
    return torch.zeros(4)


sample = partial(sample_after, 0.0)


def train(
    told: str,
    length: int,
    epochs: int = 4,
    late_s: float = 0.0,
    each_s: float = 0.0,
    **options: Any,
) -> None:
    import_all_of_torch()
    data = Numbers(partial(sample_after, each_s), length)
    distributed = torch.distributed.is_initialized()
    if distributed:
        options["sampler"] = DistributedSampler(data)
    loader: Any = DataLoader(data, batch_size=8, **options)
    module: Any = torch.nn.Linear(4, 1)
    model = torch.nn.parallel.DistributedDataParallel(module) if distributed else module
    fit(told, loader, model, epochs, late_s)


def fit(told: str, loader: Any, model: Any, epochs: int = 4, late_s: float = 0.0) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    samples, began, ended = 0, time.perf_counter(), 0.0
    first = samples, began
    for epoch in range(epochs):
        if epoch == 1:
            first = samples, ended
        for batch in loader:
            optimizer.zero_grad()
            time.sleep(late_s)
            model(batch).sum().backward()
            optimizer.step()
            time.sleep(STEP_S)
            samples += len(batch)
            ended = time.perf_counter()
    tell(told, samples, ended - began, (samples - first[0]) / (ended - first[1]))


def tell(told: str, samples: int, seconds: float, *settled: float) -> None:
    """Its own clock; `settled`: samples/s after the first epoch, which has what torch starts."""
    with Path(told).open("a", encoding="ascii") as file:
        file.write(json.dumps([samples, seconds, *settled]) + "\n")


def one(told: str) -> None:
    train(told, 480)


def smaller(told: str) -> None:
    train(told, 320)


def short_epochs(told: str) -> None:
    train(told, 160, epochs=6, each_s=0.003)


def ranks(told: str) -> None:
    torch.distributed.init_process_group("gloo")
    train(told, 960)
    torch.distributed.destroy_process_group()


def uneven(told: str) -> None:
    import_all_of_torch()
    ended_well(*[in_a_child(_uneven_rank, rank, told) for rank in range(2)])


def _uneven_rank(rank: int, told: str) -> None:
    _join(rank, told)
    train(told, 960, epochs=1, late_s=0.04 * rank)
    torch.distributed.destroy_process_group()


def played(told: str) -> None:
    """Data that is gathered anew, for two passes each time; a pause between passes over it."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    samples, began, paused_s = 0, time.perf_counter(), 0.0
    for _ in range(8):
        rollout = torch.utils.data.TensorDataset(torch.zeros(64, 4))
        time.sleep(20 * STEP_S if samples else 0)
        for paused in (0.0, 5 * STEP_S):
            time.sleep(paused)
            paused_s += paused
            for (batch,) in DataLoader(rollout, batch_size=8):
                model(batch).sum().backward()
                optimizer.step()
                time.sleep(STEP_S)
                samples += len(batch)
    tell(told, samples, time.perf_counter() - began - paused_s)


def closed(told: str) -> None:
    """Each epoch ends with the loop's own computing, a validation that computes, and a pause."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data, samples, trained_s = Numbers(sample, 128), 0, 0.0
    for epoch in range(8):
        began = time.perf_counter()
        for batch in DataLoader(data, batch_size=8):
            model(batch).sum().backward()
            optimizer.step()
            time.sleep(STEP_S)
            samples += len(batch)
        evaluates = epoch in (2, 5)
        compute(0 if evaluates or epoch == 7 else 10 * STEP_S)
        trained_s += time.perf_counter() - began
        model.train(not evaluates)
        compute(10 * STEP_S if evaluates else 0)
        model.train()
        time.sleep(5 * STEP_S)
    tell(told, samples, trained_s)


def compute(seconds: float) -> None:
    ends = time.process_time() + seconds
    while time.process_time() < ends:
        pass


def grown(told: str) -> None:
    """The loop sets the size of its next batches."""
    loader: Any = DataLoader(Numbers(sample, 480), batch_size=8)

    def grow(steps: int) -> None:
        loader.batch_sampler.batch_size = 8 + steps // 8

    step_by_step(told, loader, grow)


def paired(told: str) -> None:
    """Each batch is mixed with another one of the same loader's."""
    loader: Any = DataLoader(Numbers(sample, 240), batch_size=8, shuffle=True)
    step_by_step(told, loader, lambda _: None, pairs=True)


def step_by_step(told: str, loader: Any, after: Any, pairs: bool = False) -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    samples, steps, began = 0, 0, time.perf_counter()
    for _ in range(5):
        for batch, *_more in zip(*[loader] * (1 + pairs), strict=True):
            model(batch).sum().backward()
            optimizer.step()
            time.sleep(STEP_S)
            samples, steps = samples + len(batch), steps + 1
            after(steps)
    tell(told, samples, time.perf_counter() - began)


def replicas(told: str) -> None:
    """Averaged by DDP; both ranks draw the same samples."""
    _two_ranks(_replica, told)


def _replica(told: str) -> None:
    fit(told, _same_data(), torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1)))


def shards(told: str) -> None:
    """The same with FSDP."""
    _two_ranks(_shard, told)


def _shard(told: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Linear(4, 2)
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    fit(told, _same_data(), model)


def parts(told: str) -> None:
    """Each rank has half of the layer: their outputs are added, no gradients are averaged."""
    _two_ranks(_part, told)


def _part(told: str) -> None:
    rank = torch.distributed.get_rank()
    fit(told if rank == 0 else "/dev/null", _same_data(), Half(rank))


class Half(torch.nn.Module):
    def __init__(self, rank: int) -> None:
        super().__init__()
        self.layer, self.columns = torch.nn.Linear(2, 1), slice(2 * rank, 2 * rank + 2)

    def forward(self, batch: Any) -> Any:
        out = self.layer(batch[:, self.columns])
        whole = out.detach().clone()
        torch.distributed.all_reduce(whole)
        return out + whole - out.detach()


def _same_data() -> Any:
    torch.manual_seed(5)
    return DataLoader(Numbers(numbered, 480), batch_size=8, shuffle=True)


def numbered(index: int) -> Any:
    return torch.full((4,), float(index))


def _two_ranks(program: Any, told: str) -> None:
    import_all_of_torch()
    ended_well(*[in_a_child(_of_two, rank, program, told) for rank in range(2)])


def _of_two(rank: int, program: Any, told: str) -> None:
    _join(rank, told)
    program(told)
    torch.distributed.destroy_process_group()


def spawned(told: str) -> None:
    spawn: Any = torch.multiprocessing.__dict__["spawn"]
    spawn(_rank, (told,), nprocs=2)


def _rank(rank: int, told: str) -> None:
    _join(rank, told)
    train(told, 960)
    torch.distributed.destroy_process_group()


def _join(rank: int, told: str) -> None:
    """Meet the other rank at a file: a port could be another run's."""
    where = f"file://{told}.ranks"
    torch.distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=2)


def side_by_side(told: str) -> None:
    import_all_of_torch()
    ended_well(*[in_a_child(one, told) for _ in range(2)])


def in_turns(told: str) -> None:
    import_all_of_torch()
    for program in (smaller, one, smaller):
        ended_well(in_a_child(program, told))


def folds(told: str) -> None:
    for _ in range(2):
        train(told, 320, epochs=3)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
