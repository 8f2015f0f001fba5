"""A user's ordinary model, made parallel layer by layer: parameters and their names stay.

Each layer's forward is replaced by one that is exact on slabs, chosen by the layer's type. What has
no such rule is named, all at once, before training starts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from slurm_ext.spatial import convolution, norms, pooling
from slurm_ext.spatial.convolution import serial
from slurm_ext.spatial.dropout import Masks
from slurm_ext.spatial.errors import SpatialError
from slurm_ext.spatial.layouts import Layouts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_ext.spatial.collectives import Layout
    from slurm_ext.spatial.mesh import Mesh

Model = TypeVar("Model", bound=nn.Module)
IS_WHOLE = "_dlqueue_is_whole"  # on a tensor: all parts hold the same, it has no slabs


def _as_it_is(layer: nn.Module, _mesh: Mesh, x: torch.Tensor, _layout: Layout) -> torch.Tensor:
    return serial(layer, x)


def _wants_features(*_: Any) -> torch.Tensor:
    raise SpatialError("it wants flattened features, and gets a slab")


def _by_channel(layer: Any, _mesh: Mesh, x: torch.Tensor, _layout: Layout) -> torch.Tensor:
    if layer.dim != 1:
        raise SpatialError(f"dimension {layer.dim} may be divided; it must be 1, the channels")
    return serial(layer, x)


def _upsample(layer: nn.Upsample, _mesh: Mesh, x: torch.Tensor, _layout: Layout) -> torch.Tensor:
    factors = layer.scale_factor if isinstance(layer.scale_factor, tuple) else (layer.scale_factor,)
    if layer.mode != "nearest" or any(f is None or f != int(f) for f in factors):
        raise SpatialError("only nearest neighbours by a whole factor are divided")
    return serial(layer, x)


# Of each type of layer: a function of (layer, mesh, slab, its layout) that returns the new slab.
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
    nn.Flatten: pooling.flatten,
    nn.Linear: _wants_features,
    nn.Upsample: _upsample,
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


def parallelise(
    model: Model,
    mesh: Mesh,
    *,
    trusted: tuple[type[nn.Module], ...] = (),
    sync_batch_norm: bool = False,
    seed: int = 0,
) -> Model:
    """Make `model` work on slabs, in place, and return it; wrap it in DistributedDataParallel next.

    Its forward takes this rank's slab, `x[..., *mesh.slab(sizes)]`, and returns this rank's part of
    the result, or all of it after flattening or global pooling. `trusted` are types of the user's
    own that work voxel by voxel. Batch norm is over the samples of this rank's group; with
    `sync_batch_norm`, or as SyncBatchNorm, over all groups. `seed` is for dropout. Raises
    SpatialError that lists each module it cannot convert.
    """
    refused = [
        f"{name or 'model'} ({type(m).__name__}): {why}"
        for name, m, why in _refused(model, trusted)
    ]
    if refused:
        raise SpatialError("cannot be divided: " + "; ".join(refused))
    if mesh.parts == 1:
        return model
    layouts, masks = Layouts(mesh), Masks(mesh, seed)
    for name, layer in model.named_modules():
        rule = RULES.get(type(layer))
        if rule is norms.batch_norm and sync_batch_norm:
            rule = norms.synced_batch_norm
        if type(layer) in DROPOUTS:
            layer.forward = partial(_drop, layer, masks)
        elif rule is not None:
            layer.forward = partial(_run, layer, name, rule, layouts)
    model.register_forward_pre_hook(partial(_begin, layouts), with_kwargs=True)
    return model


def is_whole(x: torch.Tensor) -> bool:
    """True if all parts of a sample hold the same `x`, as after flattening or global pooling."""
    return x.dim() <= 2 or getattr(x, IS_WHOLE, False)


def _refused(model: nn.Module, trusted: tuple[type, ...]) -> Iterator[tuple[str, nn.Module, str]]:
    for name, module in model.named_modules():
        kind, own = type(module), [*module.parameters(recurse=False)]
        if any(type(p.data).__name__ == "DTensor" or type(p).__name__ == "DTensor" for p in own):
            yield name, module, "DTensor convolves slabs without their neighbours, which is wrong"
        elif kind in RULES or kind in DROPOUTS or kind in CONTAINERS or isinstance(module, trusted):
            continue
        elif kind.__module__.startswith("torch."):
            yield name, module, "no rule for this type"
        elif own or [*module.buffers(recurse=False)]:
            yield name, module, "it has parameters of its own; `trusted` if it works voxel by voxel"
        elif not [*module.children()]:
            yield name, module, "unknown; `trusted` if it works voxel by voxel"


def _begin(layouts: Layouts, _model: nn.Module, args: Any, kwargs: Any) -> None:
    tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, torch.Tensor)]
    if any(type(t).__name__ == "DTensor" for t in tensors):
        raise SpatialError("a DTensor: give each rank its slab as a plain tensor")
    layouts.begin(tensors[0] if tensors else torch.empty(0))


def _run(layer: nn.Module, name: str, rule: Any, layouts: Layouts, x: torch.Tensor) -> torch.Tensor:
    if is_whole(x):
        return _marked(serial(layer, x))
    try:
        y: torch.Tensor = rule(layer, layouts.mesh, x, layouts.of(name, x))
    except SpatialError as error:
        raise SpatialError(f"{name} ({type(layer).__name__}): {error}") from None
    return _marked(y) if rule is pooling.global_average else y


def _drop(layer: Any, masks: Masks, x: torch.Tensor) -> torch.Tensor:
    alike = is_whole(x)
    y = masks.drop(layer, x, is_whole=alike)
    return _marked(y) if alike else y


def _marked(x: torch.Tensor) -> torch.Tensor:
    setattr(x, IS_WHOLE, True)
    return x
