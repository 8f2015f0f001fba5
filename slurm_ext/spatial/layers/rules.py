"""The rule of each type of layer: a function of (layer, mesh, slab, layout) for the new slab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.layers import convolution, norms, pooling, upsampling
from slurm_ext.spatial.layers.convolution import serial

if TYPE_CHECKING:
    import torch

    from slurm_ext.spatial.geometry.mesh import Mesh
    from slurm_ext.spatial.layers.collectives import Layout


def _as_it_is(layer: nn.Module, _mesh: Mesh, x: torch.Tensor, _layout: Layout) -> torch.Tensor:
    return serial(layer, x)


def _wants_features(*_: Any) -> torch.Tensor:
    raise SpatialError("it wants flattened features, and gets a slab")


def _by_channel(layer: Any, _mesh: Mesh, x: torch.Tensor, _layout: Layout) -> torch.Tensor:
    if layer.dim != 1:
        raise SpatialError(f"dimension {layer.dim} may be divided; it must be 1, the channels")
    return serial(layer, x)


RULES: dict[type, Any] = {
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), convolution.convolve),
    **dict.fromkeys(
        (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d), convolution.spread
    ),
    **dict.fromkeys((nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d), pooling.max_pool),
    **dict.fromkeys((nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d), pooling.average_pool),
    **dict.fromkeys(
        (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d), pooling.global_average
    ),
    **dict.fromkeys(
        (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm), norms.batch_norm
    ),
    nn.GroupNorm: norms.group_norm,
    **dict.fromkeys((nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d), norms.instance_norm),
    nn.Flatten: pooling.flatten,
    **dict.fromkeys((nn.Linear, nn.LayerNorm, nn.Unflatten), _wants_features),
    nn.Upsample: upsampling.upsample,
    **dict.fromkeys((nn.Softmax, nn.LogSoftmax, nn.GLU), _by_channel),
    **dict.fromkeys(
        (nn.CELU, nn.ELU, nn.GELU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh),
        _as_it_is,
    ),
    **dict.fromkeys(
        (nn.Identity, nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.PReLU, nn.ReLU, nn.ReLU6), _as_it_is
    ),
    **dict.fromkeys(
        (nn.SELU, nn.Sigmoid, nn.SiLU, nn.Softplus, nn.Softshrink, nn.Softsign), _as_it_is
    ),
    **dict.fromkeys((nn.Softmax2d, nn.Tanh, nn.Tanhshrink, nn.Threshold), _as_it_is),
}
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
GATHERING = (pooling.global_average, pooling.flatten)  # what they return is whole
_CONVOLUTIONS = (convolution.convolve, convolution.convolve_meanwhile, convolution.spread)
_SAMPLINGS = (pooling.max_pool, pooling.average_pool, upsampling.upsample)
RESIZING = (*_CONVOLUTIONS, *_SAMPLINGS)  # what they return is of another volume
METHODS = ("forward", "_conv_forward", "__call__")


def rule_of(kind: type) -> Any:
    """The rule of a type, or of the type of torch's whose methods it inherits; None without one."""
    for base in kind.__mro__:
        if base in RULES:
            same = all(getattr(kind, name, 0) == getattr(base, name, 0) for name in METHODS)
            return RULES[base] if same else None
    return None
