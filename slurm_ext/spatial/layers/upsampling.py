"""Upsampling of slabs by whole factors: nearest neighbours, and linear between them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from torch.nn import functional

from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.geometry.window import KernelWindow, edge, spreading_halos
from slurm_ext.spatial.layers.convolution import serial
from slurm_ext.spatial.layers.pooling import linear

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import nn

    from slurm_ext.spatial.geometry.mesh import Mesh
    from slurm_ext.spatial.geometry.window import Edge
    from slurm_ext.spatial.layers.collectives import Layout

BETWEEN = ("linear", "bilinear", "trilinear")
REACH = KernelWindow(4, 2, 1, 1, 1)  # a plane of each neighbour, whatever the factor


def upsample(layer: nn.Upsample, mesh: Mesh, x: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The slab enlarged by whole factors; raises SpatialError for what depends on the volume."""
    scale: Any = layer.scale_factor
    factors = [*scale] if isinstance(scale, tuple) else [scale] * len(layout)
    if any(factor is None or factor != int(factor) for factor in factors):
        raise SpatialError("only whole scale factors are divided")
    if layer.mode == "nearest":
        return serial(layer, x)
    if layer.mode not in BETWEEN or layer.align_corners:
        raise SpatialError("only nearest neighbours, and linear without align_corners, are divided")
    edges = [
        edge(axis + 2, axis, spreading_halos(REACH, 0, layout[axis]), at)
        for axis, at in enumerate(mesh.coordinates)
        if mesh.space[axis] > 1
    ]
    return linear(x, edges, mesh, partial(_enlarged, factors, layer.mode, edges))


def _enlarged(
    factors: Sequence[float], mode: str, edges: Sequence[Edge], wide: torch.Tensor
) -> torch.Tensor:
    """The slab with its halo enlarged, without what became of the halo."""
    y = functional.interpolate(wide, scale_factor=[*factors], mode=mode, align_corners=False)
    for edge_ in edges:
        factor, halo = int(factors[edge_.axis]), edge_.halo
        own = wide.shape[edge_.dim] - halo.from_prev - halo.from_next
        y = y.narrow(edge_.dim, halo.from_prev * factor, own * factor)
    return y
