"""Pieces of a convolution along one dimension: outputs that need no neighbour, and the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.spatial.geometry.window import Halo, KernelWindow


@dataclass(frozen=True)
class Pieces:
    """Outputs that read planes of neighbours or of padding, and own planes that the others read."""

    low: int  # first outputs
    high: int  # last outputs
    own: slice  # planes of the slab that the outputs in between read
    low_planes: int  # of the slab with its halo, from its begin
    high_planes: int  # to its end


def pieces(window: KernelWindow, halo: Halo, size: int) -> Pieces | None:
    """The pieces of a slab of `size` planes; None if no output reads own planes alone."""
    before, kept = halo.pad_left + halo.from_prev, size - halo.crop
    whole = before + kept + halo.from_next + halo.pad_right
    outputs = (whole - window.reach) // window.stride + 1
    low = -(-before // window.stride)
    last = (before + kept - window.reach) // window.stride  # the last one that stays inside
    if last < low:
        return None
    begin = low * window.stride - before
    end = last * window.stride + window.reach - before
    return Pieces(
        low=low,
        high=outputs - 1 - last,
        own=slice(begin, end),
        low_planes=(low - 1) * window.stride + window.reach if low else 0,
        high_planes=whole - (last + 1) * window.stride if last + 1 < outputs else 0,
    )
