"""Measurements that run on every rank."""

import copy
import time
from dataclasses import asdict
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from contrib.bench.spatial.networks import NETWORKS, BenchUNet
from contrib.bench.spatial.place import device
from contrib.bench.spatial.rounding import rounding
from slurm_ext.spatial.convert import parallelise
from slurm_ext.spatial.geometry.mesh import Mesh
from slurm_ext.spatial.loss import GlobalLoss
from slurm_ext.spatial.measure import choose_mesh, measured_cluster, profile, saved_bytes
from slurm_ext.spatial.measuring.speeds import as_slabs
from slurm_ext.spatial.planning.choose import meshes
from slurm_ext.spatial.verify import compare

__all__ = [
    "choice",
    "curve",
    "exactness",
    "memory",
    "rounding",
    "steps",
    "steps_as_slabs",
]  # what world.py may be asked for


def exactness(grids: list[list[int]], size: int) -> dict[str, dict[str, float]]:
    """Differences from serial: of each network, precision and grid."""
    found = {}
    for name, build in NETWORKS.items():
        for grid in grids:
            for dtype in (torch.float32, torch.float64):
                torch.manual_seed(1)
                x = torch.randn(2, 1, size, size, size, dtype=dtype).to(device())
                row = f"{name}, {'x'.join(map(str, grid))}, {str(dtype).removeprefix('torch.')}"
                found[row] = asdict(compare(build().to(device()), x, Mesh(1, grid)))
    return found


def memory(grids: list[list[int]], size: int) -> dict[str, float]:
    """Bytes kept for the backward pass on this rank, over those of serial, of each network."""
    x = torch.randn(1, 1, size, size, size).to(device())
    found = {}
    for name, build in NETWORKS.items():
        serial = build().to(device())
        whole = saved_bytes(serial, x)
        for grid in grids:
            mesh = Mesh(1, grid)
            divided = parallelise(copy.deepcopy(serial), mesh)
            kept = saved_bytes(divided, mesh.part(x).contiguous())
            found[f"{name}, {'x'.join(map(str, grid))}"] = kept / whole
    return found


def choice(size: list[int], samples: int) -> dict[str, Any]:
    """The meshes by predicted step, and which of them the ranks take."""
    sizes, build = tuple(size), lambda _: BenchUNet(nn.BatchNorm3d).to(device())
    net = profile(build, sizes)
    found = meshes(net, measured_cluster(), dist.get_world_size(), samples)
    chosen = choose_mesh(build, sizes, samples)
    places = [(one.data, one.space) for one in found]
    return {
        "meshes": [(one.data, one.space, one.batch) for one in found],
        "predicted_s": [one.step_s for one in found],
        "chosen": places.index((chosen.data, chosen.space)),
    }


def steps(grids: list[Any], size: list[int], repeats: int) -> list[float]:
    """Median seconds of a training step of the U-Net on this rank, of each (data, grid, batch).

    They run by turns, as a core's speed drifts.
    """
    every = [(mesh := Mesh(data, grid), _divided(mesh), batch) for data, grid, batch in grids]
    return _by_turns([Trained(model, mesh, batch, size) for mesh, model, batch in every], repeats)


def steps_as_slabs(size: list[int], repeats: int) -> float:
    """Median seconds of a step of the U-Net undivided, with the convolutions that slabs have."""
    model = BenchUNet(nn.BatchNorm3d).to(device())
    with as_slabs(model):
        return _by_turns([Trained(model, Mesh(1, [1, 1, 1]), 1, size)], repeats)[0]


def _divided(mesh: Mesh) -> nn.Module:
    model = parallelise(BenchUNet(nn.BatchNorm3d).to(device()), mesh)
    return nn.parallel.DistributedDataParallel(model) if mesh.world > 1 else model


class Trained:
    """A network in training on its part of one volume."""

    def __init__(self, model: nn.Module, mesh: Mesh, batch: int, size: list[int]) -> None:
        self._model, self._loss_of = model, GlobalLoss(nn.MSELoss(), mesh)
        self._optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self._x = mesh.part(torch.randn(batch, 1, *size)).contiguous().to(device())

    def step_s(self) -> float:
        """Seconds of one step."""
        if dist.is_initialized():
            dist.barrier()
        begin = time.perf_counter()
        self._optimizer.zero_grad()
        self._loss_of(self._model(self._x), self._x).backward()
        self._optimizer.step()
        if self._x.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - begin


def _by_turns(every: list[Trained], repeats: int) -> list[float]:
    ways = [every, every[::-1]]  # there and back
    rows = [
        [one.step_s() for one in ways[turn % 2]][:: 1 - 2 * (turn % 2)]
        for turn in range(repeats + 2)
    ]
    return [median(column) for column in zip(*rows[2:], strict=True)]


def curve(grid: list[int], size: int, count: int) -> dict[str, Any]:
    """Losses of so many steps, serial and divided, in double precision."""
    torch.manual_seed(1)
    serial = BenchUNet(nn.BatchNorm3d, width=2).double().to(device())
    mesh = Mesh(1, grid)
    model = parallelise(copy.deepcopy(serial), mesh)
    divided = nn.parallel.DistributedDataParallel(model)
    ways = [torch.optim.Adam(m.parameters(), lr=1e-3) for m in (serial, divided)]
    loss_of, rows = GlobalLoss(nn.MSELoss(), mesh), []
    for step in range(count):
        x = torch.randn(1, 1, size, size, size, generator=torch.Generator().manual_seed(step))
        x = x.double().to(device())
        part = mesh.part(x)
        losses = [nn.functional.mse_loss(serial(x), x.square())]
        losses.append(loss_of(divided(part), part.square()))
        for optimizer, loss in zip(ways, losses, strict=True):
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
        rows.append([losses[0].item(), mesh.mean_over_all(losses[1])])
    return {"steps": count, "furthest": max(abs(a - b) for a, b in rows), "last": rows[-1]}
