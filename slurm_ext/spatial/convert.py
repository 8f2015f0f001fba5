"""A user's ordinary model, made parallel layer by layer: parameters and their names stay.

Each layer's forward is replaced by one that is exact on slabs, chosen by the layer's type. What has
no such rule is named, all at once, before training starts; a function that a module's own forward
calls, at the first pass.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from torch import nn

from slurm_ext.spatial.calls.guard import CallWatch
from slurm_ext.spatial.forwards import again, drop, forward_pass, run, trust
from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.layers import convolution, norms
from slurm_ext.spatial.layers.dropout import Masks
from slurm_ext.spatial.layers.rules import CONTAINERS, DROPOUTS, rule_of
from slurm_ext.spatial.layouts import Layouts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import torch

    from slurm_ext.spatial.geometry.mesh import Mesh

Model = TypeVar("Model", bound=nn.Module)
DIVIDED = "_dlqueue_mesh"  # on a model


def parallelise(
    model: Model,
    mesh: Mesh,
    *,
    trusted: tuple[type[nn.Module], ...] = (),
    sync_batch_norm: bool = False,
    seed: int = 0,
    overlap: Collection[str] = (),
) -> Model:
    """Make `model` work on slabs, in place, and return it; wrap it in DistributedDataParallel next.

    Its forward takes this rank's slab, `x[..., *mesh.slab(sizes)]`, and returns this rank's part of
    the result, or all of it after flattening or global pooling. `trusted` are types of the user's
    own that work voxel by voxel. Batch norm is over the samples of this rank's group; with
    `sync_batch_norm`, or as SyncBatchNorm, over all groups. `seed` is for dropout.
    `overlap` names convolutions that compute while their halo travels: `choose_mesh` tells where
    that pays. Raises SpatialError that lists each module it cannot convert.
    """
    _refuse_unknown(model, overlap)
    refused = [
        f"{name or 'model'} ({type(m).__name__}): {why}"
        for name, m, why in _refused(model, trusted)
    ]
    if refused:
        raise SpatialError("cannot be divided: " + "; ".join(refused))
    if mesh.parts == 1:
        return _whole(model, mesh, sync_batch_norm=sync_batch_norm)
    layouts, masks, guard = Layouts(mesh), Masks(mesh, seed), CallWatch(model, len(mesh.space))
    inside = set(_inside_layers(model))
    for name, layer in model.named_modules():
        rule = rule_of(type(layer))
        if rule is norms.batch_norm and sync_batch_norm:
            rule = norms.synced_batch_norm
        if rule is convolution.convolve and name in overlap:
            rule = convolution.convolve_meanwhile
        if isinstance(layer, trusted):
            layer.forward = partial(trust, guard, layer.forward)
        elif type(layer) in DROPOUTS:
            layer.forward = partial(drop, layer, masks, guard)
        elif rule is not None:
            layer.forward = partial(run, layer, name, rule, layouts, guard)
        elif layer is not model and layer not in inside:
            layer.forward = partial(again, guard, layer.forward)
    model.forward = partial(forward_pass, model, model.forward, layouts, guard)
    setattr(model, DIVIDED, str(mesh))
    return model


def _whole(model: Model, mesh: Mesh, *, sync_batch_norm: bool) -> Model:
    """The model of ranks with whole volumes, with batch norms over all samples if that is asked."""
    for layer in model.modules() if sync_batch_norm and mesh.world > 1 else ():
        if rule_of(type(layer)) is norms.batch_norm:
            layer.forward = partial(norms.synced_batch_norm, cast("Any", layer), mesh, _layout=())
    return model


def _refuse_unknown(model: nn.Module, overlap: Collection[str]) -> None:
    convolutions = {n for n, m in model.named_modules() if rule_of(type(m)) is convolution.convolve}
    if not convolutions.issuperset(overlap):
        wrong = ", ".join(sorted({*overlap} - convolutions))
        raise SpatialError(f"overlap: {wrong}: no convolution of this model")


def _refused(model: nn.Module, trusted: tuple[type, ...]) -> Iterator[tuple[str, nn.Module, str]]:
    if hasattr(model, DIVIDED):
        yield "", model, f"it is divided already, by {getattr(model, DIVIDED)}"
    inside = set(_inside_layers(model))
    for name, module in model.named_modules():
        if module in inside or isinstance(module, trusted):
            continue
        if why := _objection(module):
            yield name, module, why


def _inside_layers(model: nn.Module) -> Iterator[nn.Module]:
    """The modules that compute the weights of a layer that has a rule."""
    for layer in model.modules():
        if rule_of(type(layer)) is not None:
            yield from (module for module in layer.modules() if module is not layer)


def _objection(module: nn.Module) -> str | None:
    kind = type(module)
    if module._compiled_call_impl is not None:  # noqa: SLF001  # torch's only mark of compile()
        return "it is compiled: what is divided runs as written"
    own: list[torch.Tensor] = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    if any("DTensor" in (type(t).__name__, type(t.data).__name__) for t in own):
        return "DTensor convolves slabs without their neighbours, which is wrong"
    if rule_of(kind) is not None or kind in DROPOUTS or kind in CONTAINERS:
        return None
    if kind.__module__.startswith("torch."):
        return "no rule for this type"
    if own:
        return "it has parameters of its own; `trusted` if it works voxel by voxel"
    return None if [*module.children()] else "unknown; `trusted` if it works voxel by voxel"
