"""A user's ordinary model, made parallel layer by layer: parameters and their names stay.

Each layer's forward is replaced by one that is exact on slabs, chosen by the layer's type. What has
no such rule is named, all at once, before training starts; a function that a module's own forward
calls, at the first pass.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn
from torch._compile import _disable_dynamo

from slurm_ext.spatial import convolution, norms
from slurm_ext.spatial.calls.arguments import tensors
from slurm_ext.spatial.dropout import Masks
from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.guard import SLAB, WHOLE, CallWatch, is_whole, marked
from slurm_ext.spatial.layouts import Layouts
from slurm_ext.spatial.rules import CONTAINERS, DROPOUTS, GATHERING, rule_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from slurm_ext.spatial.mesh import Mesh

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
        return model
    layouts, masks, guard = Layouts(mesh), Masks(mesh, seed), CallWatch(model, len(mesh.space))
    for name, layer in model.named_modules():
        rule = rule_of(type(layer))
        if rule is norms.batch_norm and sync_batch_norm:
            rule = norms.synced_batch_norm
        if rule is convolution.convolve and name in overlap:
            rule = convolution.convolve_meanwhile
        if isinstance(layer, trusted):
            layer.forward = partial(_trust, guard, layer.forward)
        elif type(layer) in DROPOUTS:
            layer.forward = partial(_drop, layer, masks, guard)
        elif rule is not None:
            layer.forward = partial(_run, layer, name, rule, layouts, guard)
    model.forward = partial(_pass, model, model.forward, layouts, guard)
    setattr(model, DIVIDED, str(mesh))
    return model


def _refuse_unknown(model: nn.Module, overlap: Collection[str]) -> None:
    convolutions = {n for n, m in model.named_modules() if rule_of(type(m)) is convolution.convolve}
    if not convolutions.issuperset(overlap):
        wrong = ", ".join(sorted({*overlap} - convolutions))
        raise SpatialError(f"overlap: {wrong}: no convolution of this model")


def _refused(model: nn.Module, trusted: tuple[type, ...]) -> Iterator[tuple[str, nn.Module, str]]:
    if hasattr(model, DIVIDED):
        yield "", model, f"it is divided already, by {getattr(model, DIVIDED)}"
    inside: set[nn.Module] = set()  # what computes the weights of a layer that has a rule
    for name, module in model.named_modules():
        if module in inside or isinstance(module, trusted):
            continue
        if rule_of(type(module)) is not None:
            inside.update(module.modules())
        if why := _objection(module):
            yield name, module, why


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


@_disable_dynamo  # torch.compiler.disable imports all of dynamo
def _pass(
    model: nn.Module, forward: Any, layouts: Layouts, guard: CallWatch, *args: Any, **kwargs: Any
) -> Any:
    """The model's forward, watched; torch.compile leaves it as it is."""
    inputs: list[torch.Tensor] = [*tensors((args, kwargs))]
    if any(type(t).__name__ == "DTensor" for t in inputs):
        raise SpatialError("a DTensor: give each rank its slab as a plain tensor")
    slabs = [t for t in inputs if t.dim() == guard.space + 2]
    layouts.begin(slabs, training=model.training)
    marked([t for t in inputs if t.dim() != guard.space + 2], WHOLE)
    marked(slabs, SLAB)
    with guard:
        return forward(*args, **kwargs)


def _run(
    layer: nn.Module,
    name: str,
    rule: Any,
    layouts: Layouts,
    guard: CallWatch,
    *args: Any,
    **named: Any,
) -> torch.Tensor:
    """A layer that has a rule."""
    with guard.at_rest():
        x = args[0] if len(args) == 1 and not named else None
        try:
            if x is None:
                raise SpatialError("one argument is wanted: the slab")
            if is_whole(x):
                return marked(norms.of_whole(layer, rule, layouts.mesh, x), WHOLE)
            y: torch.Tensor = rule(layer, layouts.mesh, x, layouts.of(name, x))
        except SpatialError as error:
            raise SpatialError(f"{name or 'model'} ({type(layer).__name__}): {error}") from None
        return marked(y, WHOLE if rule in GATHERING else SLAB)


def _drop(layer: Any, masks: Masks, guard: CallWatch, x: torch.Tensor) -> torch.Tensor:
    alike = is_whole(x)
    with guard.at_rest():
        return marked(masks.drop(layer, x, is_whole=alike), WHOLE if alike else SLAB)


def _trust(guard: CallWatch, forward: Any, *args: Any, **kwargs: Any) -> Any:
    """A module that the user vouches for: what it makes of a slab is a slab."""
    inputs = [*tensors((args, kwargs))]
    with guard.at_rest():
        return marked(forward(*args, **kwargs), WHOLE if all(map(is_whole, inputs)) else SLAB)
