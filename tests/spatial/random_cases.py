"""Answers of a rank for test_spatial_random.py: a chain of layers on its slab, against serial.

A case is JSON: "space" (parts), "cuts" (planes of each part along each dimension), "layers" (types
and settings), "batch", "training", "channels_last", "dense" (slabs are no views), "overlap" (of
all convolutions), "seed".
"""

import copy
from collections.abc import Iterator
from itertools import product
from math import isnan, prod
from typing import Any

import torch
from torch import nn

from slurm_ext.spatial.calls.marks import is_whole
from slurm_ext.spatial.convert import parallelise
from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.geometry.mesh import Mesh, cut

CHANNELS = 4
CONVOLUTIONS = {"Conv1d", "Conv2d", "Conv3d"}
RANKS = 4
SPACES = [
    space
    for dims in (1, 2, 3)
    for space in product((1, 2, 4), repeat=dims)
    if prod(space) in {2, RANKS}
]
_MESHES: dict[tuple[int, ...], Mesh] = {}
_FORMATS = {2: torch.channels_last, 3: torch.channels_last_3d}


def prepare() -> None:
    """Make all meshes, in the same order on all ranks."""
    _MESHES.update({space: Mesh(RANKS // prod(space), space) for space in SPACES})


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """{"differs": D}, {"refused": message}, or what must not be."""
    mesh, (model, x) = _MESHES[tuple(case["space"])], made(case)
    plain = copy.deepcopy(model)
    try:
        serial: Any = plain(whole_x := x.clone().requires_grad_())
    except (RuntimeError, ValueError) as error:
        serial = error
    try:
        names = [str(n) for n, (kind, _) in enumerate(case["layers"]) if kind in CONVOLUTIONS]
        divided = parallelise(model, mesh, overlap=names if case["overlap"] else ())
        slab = cut(x, _place(case["cuts"], mesh)).detach()
        slab = (slab.clone() if case["dense"] else slab).requires_grad_()
        y = divided(slab)
    except SpatialError as error:
        return {"refused": str(error)}
    except Exception as error:  # the test shows it
        return {"broke": repr(error)}
    if isinstance(serial, Exception):
        return {"accepted": str(serial)}
    outputs = _backward(serial, y, mesh)
    inputs = (cut(_grad(whole_x), _place(case["cuts"], mesh)), _grad(slab))
    return {
        "differs": max(_apart(*pair) for pair in (outputs, inputs, *_state(plain, divided, mesh)))
    }


def _backward(serial: torch.Tensor, y: torch.Tensor, mesh: Mesh) -> tuple[torch.Tensor, ...]:
    """From a weighted sum of the outputs, on both ways; this rank's part of the outputs."""
    alike = is_whole(y)
    place = () if alike else _place(mesh.layout(y.shape), mesh)
    weights = torch.rand(serial.shape, generator=torch.Generator().manual_seed(1)).double()
    torch.autograd.backward((serial * weights).sum())
    torch.autograd.backward((y * cut(weights, place)).sum() / (mesh.parts if alike else 1))
    return cut(serial, place), y


def _state(plain: nn.Module, divided: nn.Module, mesh: Mesh) -> Iterator[tuple[torch.Tensor, ...]]:
    """Gradients of weights, and running statistics."""
    for one, other in zip(plain.modules(), divided.modules(), strict=True):
        yield _gradients(one), mesh.sum_(_gradients(other))
    yield from zip(plain.buffers(), divided.buffers(), strict=True)


def _gradients(layer: nn.Module) -> torch.Tensor:
    """Of one layer: the bias before a norm has none, and rounding of what its weights have."""
    own = [_grad(p).flatten() for p in layer.parameters(recurse=False)]
    return torch.cat([torch.zeros(0, dtype=torch.float64), *own])


def _grad(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x) if x.grad is None else x.grad


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference, over the largest value where that is above 1; NaN is infinity."""
    if one.shape != other.shape:
        return float("inf")
    if not one.numel():
        return 0.0
    found = (one - other).abs().max().item() / max(1.0, one.abs().max().item())
    return float("inf") if isnan(found) else found


def made(case: dict[str, Any]) -> tuple[nn.Module, torch.Tensor]:
    """The model and the whole volume."""
    torch.manual_seed(case["seed"])
    layers = [getattr(nn, kind)(**settings) for kind, settings in case["layers"]]
    model = nn.Sequential(*layers).double().train(case["training"])
    sizes = [sum(parts) for parts in case["cuts"]]
    x = torch.randn(case["batch"], CHANNELS, *sizes, dtype=torch.float64)
    if case["channels_last"] and len(sizes) in _FORMATS:
        x = x.to(memory_format=_FORMATS[len(sizes)])
    return model, x


def _place(cuts: Any, mesh: Mesh) -> tuple[slice, ...]:
    rows = zip(cuts, mesh.coordinates, strict=True)
    return tuple(slice(sum(parts[:at]), sum(parts[: at + 1])) for parts, at in rows)
