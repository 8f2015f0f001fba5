"""Pooling of slabs, and the places where slabs come together: global pooling and flattening.

For its gradient, max pooling keeps where each maximum was, and average pooling nothing: the slab
with its halo would be a second copy of the activations.
"""

from __future__ import annotations

from functools import partial
from operator import lt
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.geometry.window import KernelWindow
from slurm_ext.spatial.layers.collectives import summed, whole
from slurm_ext.spatial.layers.convolution import serial, window_edges
from slurm_ext.spatial.layers.halo import folded, grown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slurm_ext.spatial.geometry.mesh import Mesh
    from slurm_ext.spatial.geometry.window import Edge
    from slurm_ext.spatial.layers.collectives import Layout

MaxPool = nn.MaxPool1d | nn.MaxPool2d | nn.MaxPool3d
AveragePool = nn.AvgPool1d | nn.AvgPool2d | nn.AvgPool3d


def max_pool(layer: MaxPool, mesh: Mesh, x: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The largest of each window; beyond the border there is nothing."""
    if layer.ceil_mode or layer.return_indices:
        raise SpatialError("ceil_mode and return_indices are not divided")
    edges, sizes = _settings(layer, mesh, layout)
    sizes["dilation"] = [w.dilation for w in pool_windows(layer, len(layout))]
    call = getattr(functional, f"max_pool{len(layout)}d")
    y: torch.Tensor = _MaxPool.apply(x, edges, mesh, partial(call, **sizes, return_indices=True))  # type: ignore[no-untyped-call]  # torch's
    return y


def average_pool(layer: AveragePool, mesh: Mesh, x: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The mean of each window, with or without the zeros beyond the border."""
    if layer.ceil_mode or getattr(layer, "divisor_override", None):
        raise SpatialError("ceil_mode and divisor_override are not divided")
    edges, sizes = _settings(layer, mesh, layout)
    if len(layout) == 3 and any(map(lt, map(sum, layout), sizes["kernel_size"])):
        raise SpatialError("its windows are larger than the volume, which torch refuses in 3-D")
    call = partial(getattr(functional, f"avg_pool{len(layout)}d"), **sizes)
    y = linear(x, edges, mesh, call)
    if layer.count_include_pad or not any(_each(layer.padding, len(layout))):
        return y
    with torch.no_grad():
        share: torch.Tensor = call(grown(torch.ones_like(x[:1, :1]), edges, mesh, 0.0))
    return y / share


def global_average(layer: nn.Module, mesh: Mesh, x: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The mean of the whole volume, on each part; other output sizes are refused."""
    if set(_each(getattr(layer, "output_size", 1), len(layout))) != {1}:
        raise SpatialError("its output size must be 1")
    voxels = torch.Size(map(sum, layout)).numel()
    dims = list(range(2, x.dim()))
    return summed(x.sum(dims, keepdim=True) / voxels, mesh)


def flatten(layer: nn.Flatten, mesh: Mesh, x: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The whole volume's features, on each part: what follows has no space and runs as written.

    Gathered are as many numbers as the next layer has columns, which is small beside its weights.
    """
    if layer.start_dim > 1 or layer.end_dim not in {-1, x.dim() - 1}:
        raise SpatialError("it must flatten all dimensions of space")
    return serial(layer, whole(x, mesh, layout))


def _settings(layer: Any, mesh: Mesh, layout: Layout) -> tuple[list[Edge], dict[str, Any]]:
    """Halos, which bring the padding of divided dimensions along, and torch's own settings."""
    windows = pool_windows(layer, len(layout))
    edges = window_edges(windows, mesh, layout)
    split = {edge.axis for edge in edges}
    padding = [0 if axis in split else w.left for axis, w in enumerate(windows)]
    kernel, stride = [w.kernel for w in windows], [w.stride for w in windows]
    return edges, {"kernel_size": kernel, "stride": stride, "padding": padding}


class _MaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, edges: Any, mesh: Any, call: Any) -> torch.Tensor:
        wide = grown(x, edges, mesh, float("-inf"))
        y, places = call(wide)
        ctx.save_for_backward(places)
        ctx.edges, ctx.mesh, ctx.sizes = edges, mesh, wide.shape
        pooled: torch.Tensor = y
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        (places,) = ctx.saved_tensors
        wide = grad.new_zeros(ctx.sizes)
        wide.flatten(2).scatter_add_(2, places.flatten(2), grad.flatten(2))
        return folded(wide, ctx.edges, ctx.mesh), None, None, None


class _Linear(torch.autograd.Function):
    """The gradient of any slab will do, so that none is kept."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, edges: Any, mesh: Any, call: Any) -> torch.Tensor:
        wide = grown(x, edges, mesh, 0.0)
        ctx.edges, ctx.mesh, ctx.call, ctx.sizes = edges, mesh, call, wide.shape
        y: torch.Tensor = call(wide)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        with torch.enable_grad():
            any_slab = grad.new_empty(ctx.sizes).requires_grad_()
            (wide,) = torch.autograd.grad(ctx.call(any_slab), any_slab, grad)
        return folded(wide, ctx.edges, ctx.mesh), None, None, None


def linear(
    x: torch.Tensor, edges: Sequence[Edge], mesh: Mesh, call: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """`call`, a linear function, of the slab with its halo."""
    y: torch.Tensor = _Linear.apply(x, edges, mesh, call)  # type: ignore[no-untyped-call]  # torch's
    return y


def pool_windows(layer: Any, count: int) -> list[KernelWindow]:
    """The layer's window along each of `count` dimensions."""
    settings = (layer.kernel_size, layer.stride, getattr(layer, "dilation", 1), layer.padding)
    rows = zip(*(_each(value, count) for value in settings), strict=True)
    return [KernelWindow(k, s, d, p, p) for k, s, d, p in rows]


def _each(value: Any, count: int) -> list[int]:
    """A number for each dimension."""
    return [value] * count if isinstance(value, int) else list(value)
