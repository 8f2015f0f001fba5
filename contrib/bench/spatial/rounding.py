"""Input gradients in single precision against double: of slabs, of serial, and of serial turned.

Two sums of the same numbers in different order differ by the rounding of both, so slabs cannot be
nearer to serial than serial is to the truth. Serial training on volumes whose first and last
dimension (and those of all kernels) change places is such another order, without any slab.
"""

import copy

import torch
from torch import nn

from contrib.bench.spatial.networks import NETWORKS
from contrib.bench.spatial.place import device
from slurm_ext.spatial.convert import parallelise
from slurm_ext.spatial.geometry.mesh import Mesh


def rounding(grids: list[list[int]], size: int, seeds: int) -> dict[str, dict[str, float]]:
    """Largest and root mean square differences over the largest gradient: of each row."""
    rows = ((name, grid, seed) for name in NETWORKS for grid in grids for seed in range(seeds))
    return {
        f"{name}, {'x'.join(map(str, grid))}, seed {seed}": _row(name, Mesh(1, grid), size, seed)
        for name, grid, seed in rows
    }


def _row(name: str, mesh: Mesh, size: int, seed: int) -> dict[str, float]:
    torch.manual_seed(seed)
    model, x = NETWORKS[name]().to(device()), torch.randn(2, 1, size, size, size).to(device())
    weights = torch.rand(copy.deepcopy(model)(x).shape).to(device()) / size**3
    exact = _gradient(copy.deepcopy(model).double(), x.double(), weights.double())
    serial = _gradient(copy.deepcopy(model), x, weights)
    turned = _gradient(_turned(model), _turn(x), _turn(weights))
    divided = parallelise(copy.deepcopy(model), mesh)
    slab = _gradient(divided, mesh.part(x), mesh.part(weights))
    part, largest = mesh.part(exact), exact.abs().max()
    return {
        "largest": float(largest),
        "slabs against serial": _furthest(slab, mesh.part(serial)) / float(largest),
        "slabs against double": _furthest(slab, part) / float(largest),
        "serial against double": _furthest(serial, exact) / float(largest),
        "serial against serial turned": _furthest(serial, _turn(turned)) / float(largest),
        "rms of slabs over rms of serial": _rms(slab, part) / _rms(mesh.part(serial), part),
    }


def _gradient(model: nn.Module, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad((model(x) * weights).sum(), x)[0]


def _turn(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(2, 4).contiguous()


def _turned(model: nn.Module) -> nn.Module:
    """The model for turned volumes: its kernels and settings are cubes."""
    model = copy.deepcopy(model)
    for layer in model.modules():
        if isinstance(layer, (nn.Conv3d, nn.ConvTranspose3d)):
            layer.weight.data = _turn(layer.weight.data)
    return model


def _furthest(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a.double() - b.double()).abs().max().item()


def _rms(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a.double() - b.double()).square().mean().sqrt().item()
