"""Sums over the parts of a sample that gradients pass through."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

if TYPE_CHECKING:
    from slurm_ext.spatial.geometry.mesh import Mesh

Layout = tuple[tuple[int, ...], ...]
"""Of each dimension of space: the planes of each part."""


def summed(x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
    """The sum of all parts' `x`, on each; its gradient is the sum of the parts' gradients."""
    total: torch.Tensor = _Sum.apply(x, mesh)  # type: ignore[no-untyped-call]  # torch's
    return total


def whole(x: torch.Tensor, mesh: Mesh, layout: Layout) -> torch.Tensor:
    """The whole volume on each part: each puts its slab among zeros, and they are added up."""
    sides: list[int] = []
    for at, sizes in zip(mesh.coordinates, layout, strict=True):
        starts = [0, *accumulate(sizes)]
        sides = [starts[at], starts[-1] - starts[at + 1], *sides]
    return summed(functional.pad(x, sides), mesh)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, mesh: Any) -> torch.Tensor:
        ctx.mesh = mesh
        total: torch.Tensor = mesh.sum_(x.clone(memory_format=torch.contiguous_format))
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        return ctx.mesh.sum_(grad.clone(memory_format=torch.contiguous_format)), None
