"""Planes of its neighbours that a slab needs under a sliding window. Pure.

One dimension at a time: `sizes` are the planes of each part along it. Part r computes the outputs
whose windows begin in it, so parts stay where they are, and skip connections meet the same part.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from slurm_ext.spatial.geometry.errors import SpatialError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class KernelWindow:
    """A kernel along one dimension, with the padding on each side of the whole volume."""

    kernel: int
    stride: int = 1
    dilation: int = 1
    left: int = 0
    right: int = 0

    @property
    def reach(self) -> int:
        """Planes from the first to the last that one output reads."""
        return self.dilation * (self.kernel - 1) + 1

    def outputs(self, size: int) -> int:
        """Planes of the output of a volume of `size` planes."""
        return (size + self.left + self.right - self.reach) // self.stride + 1

    def spread(self, size: int) -> int:
        """Planes of the output of the transposed convolution, without output padding."""
        return (size - 1) * self.stride + self.reach - self.left - self.right


@dataclass(frozen=True)
class Halo:
    """Planes that one part adds to its own: of its neighbours, and of padding at the border."""

    from_prev: int = 0
    from_next: int = 0
    pad_left: int = 0
    pad_right: int = 0
    crop: int = 0  # own last planes that no output reads


@dataclass(frozen=True)
class Edge:
    """A part's halo along one dimension of a tensor, and the planes it sends."""

    dim: int  # of the tensor
    axis: int  # of the mesh
    halo: Halo
    to_prev: int = 0
    to_next: int = 0

    @property
    def is_empty(self) -> bool:
        """True if the slab stays as it is and nothing is sent."""
        return self.halo == Halo() and not (self.to_prev or self.to_next)


def halos(window: KernelWindow, sizes: Sequence[int]) -> list[Halo]:
    """The halo of each part of a convolution or pooling; raises SpatialError on all ranks alike."""
    starts = [0, *accumulate(sizes)]
    if any(start % window.stride for start in starts[:-1]):
        raise SpatialError(
            f"parts of {_shown(sizes)} planes do not all begin at a multiple of stride"
            f" {window.stride}"
        )
    last = max(0, window.outputs(starts[-1]))
    outputs = [*(min(start // window.stride, last) for start in starts[:-1]), last]
    if any(begin >= end for begin, end in pairwise(outputs)):
        raise SpatialError(f"of parts of {_shown(sizes)} planes, one would have no output")
    every = [_halo(window, starts, outputs, part) for part in range(len(sizes))]
    _refuse_thin(every, sizes)
    return every


def spreading_halos(window: KernelWindow, output_padding: int, sizes: Sequence[int]) -> list[Halo]:
    """The halo of each part of a transposed convolution whose output is `stride` times its input.

    Raises SpatialError for another size of output, alike on all ranks.
    """
    grown = window.reach + output_padding - window.left - window.right
    if grown != window.stride:
        raise SpatialError(f"its output is not {window.stride} times as large as its input")
    before = (window.reach - 1 - window.left) // window.stride
    after = (window.left - 1) // window.stride + 1
    starts, whole = [0, *accumulate(sizes)], sum(sizes)
    every = [
        Halo(from_prev=min(before, begin), from_next=min(after, whole - end))
        for begin, end in pairwise(starts)
    ]
    _refuse_thin(every, sizes)
    return every


def edge(dim: int, axis: int, every: Sequence[Halo], part: int) -> Edge:
    """The edge of `part`, given the halos of all parts."""
    return Edge(
        dim=dim,
        axis=axis,
        halo=every[part],
        to_prev=every[part - 1].from_next if part > 0 else 0,
        to_next=every[part + 1].from_prev if part + 1 < len(every) else 0,
    )


def split(size: int, parts: int) -> int:
    """Planes of each of `parts` equal parts; raises SpatialError where they would not be equal."""
    if size % parts:
        raise SpatialError(f"{size} planes cannot be divided into {parts} equal parts")
    return size // parts


def _halo(window: KernelWindow, starts: Sequence[int], outputs: Sequence[int], part: int) -> Halo:
    begin, end, whole = starts[part], starts[part + 1], starts[-1]
    first = outputs[part] * window.stride - window.left
    beyond = (outputs[part + 1] - 1) * window.stride - window.left + window.reach
    after = min(beyond, whole) - end
    return Halo(
        from_prev=begin - max(first, 0),
        from_next=max(after, 0),
        pad_left=max(-first, 0),
        pad_right=max(beyond - whole, 0),
        crop=max(-after, 0),
    )


def _refuse_thin(every: Sequence[Halo], sizes: Sequence[int]) -> None:
    """A neighbour can give no more planes than it has."""
    for part, halo in enumerate(every):
        before = sizes[part - 1] if part else 0
        after = sizes[part + 1] if part + 1 < len(sizes) else 0
        if halo.from_prev > before or halo.from_next > after or halo.crop >= sizes[part]:
            widest = max(max(halo.from_prev, halo.from_next) for halo in every)
            raise SpatialError(
                f"parts of {_shown(sizes)} planes are thinner than its halo of {widest}"
            )


def _shown(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes))
