"""Marks on tensors: a slab, with the sizes of its volume, or whole (all parts hold the same)."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch.autograd.function import BackwardCFunction

from slurm_ext.spatial.calls.arguments import tensors
from slurm_ext.spatial.geometry.errors import SpatialError

MARK, VOLUME = "_dlqueue_part", "_dlqueue_volume"  # attributes of tensors
TRUSTED = "_dlqueue_trusted"  # of those that a module made that is `trusted`
OURS = ("slurm_ext.", "torch.")  # modules of autograd functions whose gradients are right
SLAB, WHOLE = "slab", "whole"
Values = TypeVar("Values")
Volume = tuple[int, ...]
"""Planes of all parts along each dimension of space."""


def is_whole(x: torch.Tensor) -> bool:
    """True if all parts of a sample hold the same `x`, as after flattening or global pooling."""
    mark = getattr(x, MARK, None)
    return mark == WHOLE or (mark is None and x.dim() <= 2)


def is_slab(x: torch.Tensor) -> bool:
    """True if parts of a sample hold different parts of `x`, as the watch over calls knows."""
    return getattr(x, MARK, None) == SLAB


def volume_of(slab: torch.Tensor) -> Volume | None:
    """The sizes of the slab's volume; None if they are not known."""
    volume: Volume | None = getattr(slab, VOLUME, None)
    return volume


def marked(values: Values, mark: str, volume: Volume | None = None) -> Values:
    """The values, whose tensors now carry the mark; of slabs, also the sizes of their volume."""
    for tensor in tensors(values):
        setattr(tensor, MARK, mark)
        setattr(tensor, VOLUME, volume)
    return values


def refuse_unwatched(x: torch.Tensor) -> None:
    """Raise SpatialError for a tensor of space that was made where nobody watched."""
    if x.dim() <= 2 or is_whole(x):
        return
    if not hasattr(x, MARK):
        raise SpatialError(
            f"a tensor of {tuple(x.shape)} that was not made of the model's inputs, or by what"
            " nobody can watch (torch.vmap, a copy of a slab), is no slab"
        )
    by = getattr(x.grad_fn, "_forward_cls", None) if _is_by_hand(x) else None
    if by is not None and not by.__module__.startswith(OURS):
        raise SpatialError(
            f"nobody watches the backward pass of {by.__name__}, an autograd function: call it in a"
            " module that is `trusted` if it works voxel by voxel"
        )


def _is_by_hand(x: torch.Tensor) -> bool:
    return isinstance(x.grad_fn, BackwardCFunction) and not hasattr(x, TRUSTED)
