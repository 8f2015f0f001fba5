"""Sizes that a model's own forward reads are those of the volume, as they are without slabs.

So what it computes with them (a mean's divisor, a number of planes) is what serial training
computes; a tensor that it makes of that size is no slab, and is refused beside one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from slurm_ext.spatial.calls.arguments import tensors
from slurm_ext.spatial.calls.marks import SLAB, marked, volume_of
from slurm_ext.spatial.geometry.errors import SpatialError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_ext.spatial.calls.arguments import Call
    from slurm_ext.spatial.calls.marks import Values, Volume

CHECKPOINT, WATCHED = "torch.utils.checkpoint", "slurm_ext.spatial.forwards"  # modules
READING = frozenset({"shape", "size", "numel", "nbytes"})  # torch calls nelement numel


def size_read(call: Call) -> Any:
    """The size that a call of READING reads, of the volume. Raises SpatialError if unknown."""
    slab: torch.Tensor = call.slab
    volume = volume_of(slab)
    if volume is None:
        raise SpatialError(
            "the size of its volume is not known here; checkpoint with use_reentrant=False"
        )
    if _is_computed_again():
        raise SpatialError(
            "a function that is checkpointed reads a size, and would read that of the slab when it"
            " is computed again: checkpoint a module"
        )
    shape = torch.Size((*slab.shape[:2], *volume))
    if call.name == "shape":
        return shape
    if call.name == "size":
        dim = call.argument(1, "dim")
        return shape if dim is None else shape[dim]
    return shape.numel() * (slab.element_size() if call.name == "nbytes" else 1)


def _is_computed_again() -> bool:
    """True below a checkpointed function that is no module: nobody watches its second pass."""
    frame: Any = sys._getframe(2)  # noqa: SLF001  # the only way to it
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if module in {CHECKPOINT, WATCHED}:
            return bool(module == CHECKPOINT)
        frame = frame.f_back
    return False


def common_volume(slabs: Sequence[torch.Tensor]) -> Volume | None:
    """The volume of what a call makes of `slabs`; raises SpatialError if theirs do not fit."""
    volumes = {volume_of(slab) for slab in slabs}
    known = [volume for volume in volumes if volume is not None]
    try:
        common = tuple(torch.broadcast_shapes(*known))  # type: ignore[no-untyped-call]  # torch's
    except RuntimeError:
        raise SpatialError(f"with slabs of volumes of different sizes: {sorted(known)}") from None
    return None if None in volumes else common


def mark_slabs(values: Values, slabs: Sequence[torch.Tensor], space: int) -> Values:
    """Mark what the call made of `slabs` as slabs of a volume of that size, or resized."""
    volume = common_volume(slabs)
    own = torch.broadcast_shapes(*(slab.shape[-space:] for slab in slabs))  # type: ignore[no-untyped-call]  # torch's
    for tensor in tensors(values):
        marked(tensor, SLAB, _resized(volume, own, tensor.shape[-space:]))
    return values


def _resized(volume: Volume | None, own: Sequence[int], new: Sequence[int]) -> Volume | None:
    """The volume of slabs that were of size `own` and are of size `new`, a multiple; or None."""
    if volume is None or len(new) != len(volume):
        return None
    if any(n % m for n, m in zip(new, own, strict=True)):
        return None
    return tuple(v * n // m for v, n, m in zip(volume, new, own, strict=True))
