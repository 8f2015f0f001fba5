"""Calls over space: how coarse each layer's voxels are, and planes of its neighbours that it wants.

A layer's stride is the growth of the crops over that of its input: sizes alone mislead where
windows without padding take planes away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.geometry.window import Halo, spreading_halos
from slurm_ext.spatial.layers import convolution, pooling, upsampling
from slurm_ext.spatial.layers.rules import rule_of
from slurm_ext.spatial.measuring.layer_calls import LayerCall, layer_calls, shares
from slurm_ext.spatial.planning.profile import HaloLayer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch
    from torch import nn

    Sizes = tuple[int, ...]

POOLINGS = (pooling.max_pool, pooling.average_pool)
UNDIVIDED = Halo(1 << 30, 1 << 30)  # no slab has as many planes: the dimension stays whole
WIDE = (1 << 20,) * 3  # parts of which each can give what its neighbours want


class SpaceCall(NamedTuple):
    """A call whose input grows with the volume."""

    call: LayerCall
    strides: tuple[float, ...]  # voxels of the volume for one of the input; below 1: it is larger
    share: float  # of the time of all calls


def space_calls(
    pairs: Sequence[tuple[nn.Module, torch.Tensor]], crops: Sequence[Sizes]
) -> list[SpaceCall]:
    """Calls of the networks of two crops; raises ValueError if they have other layers."""
    smaller, larger = (layer_calls(*pair) for pair in pairs)
    if [call.name for call in smaller] != [call.name for call in larger]:
        raise ValueError(f"the networks for {crops[0]} and {crops[1]} differ in their layers")
    found = []
    for small, large, share in zip(smaller, larger, shares(larger), strict=True):
        sizes = [tuple(call.input.shape[2:]) for call in (small, large)]
        if len(sizes[0]) == len(crops[0]):
            strides = tuple(map(_stride, *crops, *sizes))
            found += [SpaceCall(large, strides, share)] if all(strides) else []
    return found


def halo_layers(calls: Sequence[SpaceCall]) -> Iterator[HaloLayer]:
    """The layers that exchange planes, as the plan wants them."""
    for call, strides, share in calls:
        x, halos = call.input, _halos(call.layer, len(strides))
        before, after = (tuple(h.from_prev for h in halos), tuple(h.from_next for h in halos))
        if any(before) or any(after):
            own = share if rule_of(type(call.layer)) is convolution.convolve else 0.0
            voxel = x.shape[1] * x.element_size()
            yield HaloLayer(strides, voxel, before, after, call.name, own)


def _stride(small_crop: int, large_crop: int, small: int, large: int) -> float:
    """Voxels of the volume for one of the input; 0.0 for an input that does not grow with it."""
    if small_crop == large_crop:
        return large_crop / large
    return (large_crop - small_crop) / (large - small) if large != small else 0.0


def _halos(layer: Any, count: int) -> list[Halo]:
    """Planes that a slab inside gets along each dimension."""
    rule = rule_of(type(layer))
    try:
        return [_halo(layer, rule, axis, count) for axis in range(count)]
    except SpatialError:
        return [UNDIVIDED] * count


def _halo(layer: Any, rule: Any, axis: int, count: int) -> Halo:
    if rule is convolution.spread:
        window, more = convolution.kernel_window(layer, axis), layer.output_padding[axis]
        return spreading_halos(window, more, WIDE)[1]
    if rule is upsampling.upsample and layer.mode in upsampling.BETWEEN:
        return spreading_halos(upsampling.REACH, 0, WIDE)[1]
    if rule is convolution.convolve:
        window = convolution.kernel_window(layer, axis)
    elif rule in POOLINGS:
        window = pooling.pool_windows(layer, count)[axis]
    else:
        return Halo()
    return Halo(window.left, max(0, window.reach - window.left - window.stride))
