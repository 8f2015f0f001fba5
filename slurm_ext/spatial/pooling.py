"""Pooling of slabs, and the places where slabs come together: global pooling and flattening."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from slurm_ext.spatial.collectives import summed, whole
from slurm_ext.spatial.convolution import serial, window_edges
from slurm_ext.spatial.errors import SpatialError
from slurm_ext.spatial.halo import with_halos
from slurm_ext.spatial.window import KernelWindow

if TYPE_CHECKING:
    from slurm_ext.spatial.collectives import Layout
    from slurm_ext.spatial.mesh import Mesh

MaxPool = nn.MaxPool1d | nn.MaxPool2d | nn.MaxPool3d
AveragePool = nn.AvgPool1d | nn.AvgPool2d | nn.AvgPool3d


def max_pool(layer: MaxPool, mesh: Mesh, x: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The largest of each window; beyond the border there is nothing."""
    if layer.ceil_mode or layer.return_indices:
        raise SpatialError("ceil_mode and return_indices are not divided")
    y: torch.Tensor = _pooled("max_pool", layer, mesh, x, layout, float("-inf"))
    return y


def average_pool(layer: AveragePool, mesh: Mesh, x: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The mean of each window, with or without the zeros beyond the border."""
    if layer.ceil_mode or getattr(layer, "divisor_override", None):
        raise SpatialError("ceil_mode and divisor_override are not divided")
    y = _pooled("avg_pool", layer, mesh, x, layout, 0.0)
    if layer.count_include_pad or not any(_each(layer.padding, len(layout))):
        return y
    ones = torch.ones_like(x[:1, :1]).detach()
    return y / _pooled("avg_pool", layer, mesh, ones, layout, 0.0)


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


def _pooled(
    kind: str, layer: Any, mesh: Mesh, x: torch.Tensor, layout: Layout, fill: float
) -> torch.Tensor:
    """Pool by torch; divided dimensions bring their halo and padding along."""
    windows = pool_windows(layer, len(layout))
    edges = window_edges(windows, mesh, layout)
    split = {edge.axis for edge in edges}
    padding = [0 if axis in split else w.left for axis, w in enumerate(windows)]
    kernel, stride = [w.kernel for w in windows], [w.stride for w in windows]
    more = {"dilation": [w.dilation for w in windows]} if kind == "max_pool" else {}
    call = getattr(functional, f"{kind}{len(layout)}d")
    y: torch.Tensor = call(with_halos(x, edges, mesh, fill), kernel, stride, padding, **more)
    return y


def pool_windows(layer: Any, count: int) -> list[KernelWindow]:
    """The layer's window along each of `count` dimensions."""
    settings = (layer.kernel_size, layer.stride, getattr(layer, "dilation", 1), layer.padding)
    rows = zip(*(_each(value, count) for value in settings), strict=True)
    return [KernelWindow(k, s, d, p, p) for k, s, d, p in rows]


def _each(value: Any, count: int) -> list[int]:
    """A number for each dimension."""
    return [value] * count if isinstance(value, int) else list(value)
