"""Forwards of a divided model's modules: they stand in for those that the user wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._compile import _disable_dynamo

from slurm_ext.spatial.calls.arguments import tensors
from slurm_ext.spatial.calls.marks import (
    MARK,
    SLAB,
    TRUSTED,
    WHOLE,
    is_whole,
    marked,
    refuse_unwatched,
    volume_of,
)
from slurm_ext.spatial.calls.sizes import mark_slabs
from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.layers import norms
from slurm_ext.spatial.layers.rules import GATHERING, RESIZING

if TYPE_CHECKING:
    from slurm_ext.spatial.calls.guard import CallWatch
    from slurm_ext.spatial.layers.dropout import Masks
    from slurm_ext.spatial.layouts import Layouts


@_disable_dynamo  # torch.compiler.disable imports all of dynamo
def forward_pass(
    model: nn.Module, forward: Any, layouts: Layouts, guard: CallWatch, *args: Any, **kwargs: Any
) -> Any:
    """The model's forward, watched; torch.compile leaves it as it is."""
    inputs: list[torch.Tensor] = [*tensors((args, kwargs))]
    if any(type(t).__name__ == "DTensor" for t in inputs):
        raise SpatialError("a DTensor: give each rank its slab as a plain tensor")
    slabs = [t for t in inputs if t.dim() == guard.space + 2]
    volumes = layouts.begin(slabs, training=model.training)
    marked([t for t in inputs if t.dim() != guard.space + 2], WHOLE)
    for slab, volume in zip(slabs, volumes, strict=False):
        marked(slab, SLAB, volume)
    with guard:
        result = forward(*args, **kwargs)
    for made in tensors(result):
        refuse_unwatched(made)
    return result


def run(
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
            if guard.is_active:
                refuse_unwatched(x)
            if is_whole(x):
                return marked(norms.of_whole(layer, rule, layouts.mesh, x), WHOLE)
            layout = layouts.of(name, x)
            y: torch.Tensor = rule(layer, layouts.mesh, x, layout)
            after = layouts.of(f"{name} made", y) if rule in RESIZING else layout
        except SpatialError as error:
            raise SpatialError(f"{name or 'model'} ({type(layer).__name__}): {error}") from None
        if rule in GATHERING:
            return marked(y, WHOLE)
        return marked(y, SLAB, tuple(map(sum, after)))


def drop(layer: Any, masks: Masks, guard: CallWatch, x: torch.Tensor) -> torch.Tensor:
    """A dropout: what is whole loses the same everywhere."""
    alike = is_whole(x)
    with guard.at_rest():
        y = masks.drop(layer, x, is_whole=alike)
        return marked(y, WHOLE if alike else SLAB, volume_of(x))


def trust(guard: CallWatch, forward: Any, *args: Any, **kwargs: Any) -> Any:
    """A module that the user vouches for: what it makes of a slab is a slab."""
    inputs = [*tensors((args, kwargs))]
    slabs = [x for x in inputs if not is_whole(x)]
    with guard.at_rest():
        result = forward(*args, **kwargs)
    for made in tensors(result):
        setattr(made, TRUSTED, True)
    return mark_slabs(result, slabs, guard.space) if slabs else marked(result, WHOLE)


def again(guard: CallWatch, forward: Any, *args: Any, **kwargs: Any) -> Any:
    """A module of the user's own, watched also where it runs outside of a pass of the model.

    So it does under activation checkpointing, when the backward pass computes it again. Reentrant
    checkpointing takes the marks away with the gradient's history: sizes are then unknown.
    """
    if guard.is_active:
        return forward(*args, **kwargs)
    unmarked = [x for x in tensors((args, kwargs)) if not hasattr(x, MARK)]
    marked([x for x in unmarked if x.dim() == guard.space + 2], SLAB)
    with guard:
        return forward(*args, **kwargs)
