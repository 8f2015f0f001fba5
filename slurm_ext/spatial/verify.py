"""A model on slabs against the same model on whole volumes: the proof for a user's own network.

`parallelise` cannot see inside of `trusted` modules; here it shows if they are wrong.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import nn

from slurm_ext.spatial.calls.marks import is_whole
from slurm_ext.spatial.convert import parallelise
from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.geometry.mesh import cut
from slurm_ext.spatial.layers.rules import DROPOUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slurm_ext.spatial.geometry.mesh import Mesh


@dataclass(frozen=True)
class Differences:
    """Largest differences from serial, with a weighted mean of the output as loss.

    Over the largest serial value where that is above 1; input gradients always.
    """

    output: float
    input_gradient: float
    weight_gradient: float  # over the layer's largest
    buffers: float  # running statistics


def compare(
    model: nn.Module, x: torch.Tensor, mesh: Mesh, *, trusted: tuple[type[nn.Module], ...] = ()
) -> Differences:
    """Run copies of `model`, not yet parallel, on all of `x` and on this rank's slab of it.

    `x` is (batch, channels, *sizes), equal on all ranks, and small: every rank holds all of it.
    Collective over the parts; each rank gets the differences of its part.
    """
    plain = _without_dropout(copy.deepcopy(model).to(x.dtype))
    divided = parallelise(copy.deepcopy(plain), mesh, trusted=trusted)
    serial_x, slab_x = x.clone().requires_grad_(), mesh.part(x).clone().requires_grad_()
    serial_y, slab_y = plain(serial_x), divided(slab_x)
    _backward(serial_y, slab_y, mesh)
    layers = zip(plain.modules(), divided.modules(), strict=True)
    buffers = zip(plain.buffers(), divided.buffers(), strict=True)
    return Differences(
        output=_difference(_part_of_result(serial_y, slab_y, mesh), slab_y),
        input_gradient=_difference(mesh.part(_grad(serial_x)), _grad(slab_x), least=0.0),
        weight_gradient=max(_difference(*_of_layer(*both, mesh)) for both in layers),
        buffers=max((_difference(a.to(x), b.to(x)) for a, b in buffers), default=0.0),
    )


def check(
    model: nn.Module,
    x: torch.Tensor,
    mesh: Mesh,
    *,
    within: float = 1e-4,
    trusted: tuple[type[nn.Module], ...] = (),
) -> None:
    """Raise SpatialError, on all ranks, if the model on slabs is not the model."""
    own = torch.tensor(astuple(compare(model, x, mesh, trusted=trusted)), device=mesh.device)
    peaks = mesh.gather(own).amax(0) if mesh.parts > 1 else own
    if not peaks.max().item() <= within:
        names = [field.name for field in fields(Differences)]
        raise SpatialError(
            "the model on slabs differs from the model on the volume"
            f" ({', '.join(f'{n} {v:.2g}' for n, v in zip(names, peaks.tolist(), strict=True))}):"
            " its forward uses a function over space where it needs a layer"
        )


def check_small(
    build: Callable[[Sequence[int]], nn.Module],
    sizes: Sequence[int],
    mesh: Mesh,
    *,
    channels: int = 1,
    trusted: tuple[type[nn.Module], ...] = (),
) -> tuple[int, ...]:
    """`check` the network of `build` on the smallest volume that the mesh divides; its sizes.

    In double precision, with two samples: a cube of 8 planes for each part of the longest side of
    the mesh, or twice or four times that, but no larger than `sizes`. Collective over the parts.
    Raises SpatialError, on all ranks, if the model on slabs is not the model, or is refused.
    """
    if mesh.parts == 1:
        return ()
    smallest = 8 * max(mesh.space)
    cubes = [tuple(min(n, smallest * more) for n in sizes) for more in (1, 2, 4)]
    for cube in cubes[:-1]:
        with suppress(SpatialError, RuntimeError, ValueError):  # too small: the largest tells
            return _checked(build, cube, mesh, channels, trusted)
    return _checked(build, cubes[-1], mesh, channels, trusted)


def _checked(
    build: Callable[[Sequence[int]], nn.Module],
    cube: tuple[int, ...],
    mesh: Mesh,
    channels: int,
    trusted: tuple[type[nn.Module], ...],
) -> tuple[int, ...]:
    model = build(cube)
    for values in (*model.parameters(), *model.buffers()):
        mesh.sum_(values.data.mul_(mesh.rank % mesh.parts == 0))  # the first part's, on all
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    numbers = torch.Generator().manual_seed(0)
    x = torch.randn(2, channels, *cube, generator=numbers, dtype=torch.float64)
    check(model, x.to(device), mesh, trusted=trusted)
    return cube


def _backward(serial: torch.Tensor, divided: torch.Tensor, mesh: Mesh) -> None:
    """From a weighted mean of the result, on both ways."""
    weights = torch.rand(serial.shape, generator=torch.Generator().manual_seed(1)).to(serial) + 0.5
    weights /= serial.numel()
    own = _part_of_result(weights, divided, mesh)
    loss = (divided * own).sum() / (mesh.parts if is_whole(divided) else 1)
    for total in ((serial * weights).sum(), loss):
        torch.autograd.backward(total)


def _part_of_result(whole: torch.Tensor, divided: torch.Tensor, mesh: Mesh) -> torch.Tensor:
    """This rank's part of `whole`; parts may be unequal."""
    if is_whole(divided) or mesh.parts == 1:
        return whole
    starts = [[0, *accumulate(sizes)] for sizes in mesh.layout(divided.shape)]
    places = zip(starts, mesh.coordinates, strict=True)
    return cut(whole, tuple(slice(begins[at], begins[at + 1]) for begins, at in places))


def _of_layer(
    plain: nn.Module, divided: nn.Module, mesh: Mesh
) -> tuple[torch.Tensor, torch.Tensor]:
    """All gradients of one layer; where a bias has none, before a norm, weights give the scale."""
    own = zip(plain.parameters(recurse=False), divided.parameters(recurse=False), strict=True)
    pairs = [(_grad(p).flatten(), mesh.sum_(_grad(q)).flatten()) for p, q in own]
    empty = [torch.zeros(1)]
    return torch.cat([p for p, _ in pairs] or empty), torch.cat([q for _, q in pairs] or empty)


def _grad(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x) if x.grad is None else x.grad


def _difference(serial: torch.Tensor, divided: torch.Tensor, least: float = 1.0) -> float:
    serial, divided = serial.detach(), divided.detach()
    largest = max(least, serial.abs().max().item())
    return (serial - divided).abs().max().item() / (largest or 1.0)


def _without_dropout(model: nn.Module) -> nn.Module:
    for module in model.modules():
        if isinstance(module, DROPOUTS):
            module.p = 0.0
    return model
