"""The mesh of ranks: data x space, space innermost, so that neighbours share a node."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.geometry.window import split

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import EllipsisType

    from torch.distributed import ProcessGroup


def cut(x: torch.Tensor, place: tuple[slice, ...]) -> torch.Tensor:
    """The planes of `place` of the last dimensions."""
    index: tuple[slice | EllipsisType, ...] = (..., *place)
    return x[index]


def fitting(shapes: list[list[int]], mesh: Mesh) -> tuple[tuple[int, ...], ...]:
    """Planes of each part along each dimension, of (batch, channels, *sizes) of all parts.

    Raises SpatialError if slabs of such sizes are not one volume.
    """
    table = torch.tensor(shapes).view(*mesh.space, -1)
    planes = [table[..., axis + 2].movedim(axis, 0) for axis in range(len(mesh.space))]
    fits = all(
        (plane == plane[(slice(None), *[slice(1)] * (plane.dim() - 1))]).all() for plane in planes
    )
    if not fits or any(row[:2] != shapes[0][:2] for row in shapes):
        raise SpatialError(f"ranks have slabs that do not fit together: {shapes}")
    return tuple(tuple(plane.reshape(len(plane), -1)[:, 0].tolist()) for plane in planes)


class Mesh:
    """`data` groups of ranks, each of which divides its samples' volumes by `space`.

    Every rank makes it at the same point, after init_process_group. Rank r is
    (data, s0, s1, s2) in row-major order. Raises SpatialError if the ranks do not fill it.
    """

    def __init__(self, data: int, space: Sequence[int]) -> None:
        ready = dist.is_initialized()
        self.world, self.rank = (dist.get_world_size(), dist.get_rank()) if ready else (1, 0)
        self.data, self.space, self.parts = data, tuple(space), prod(space)
        if not 1 <= len(self.space) <= 3 or min(data, *self.space) < 1:
            raise SpatialError(f"a mesh is data x 1 to 3 dimensions of space, not {self}")
        if data * self.parts != self.world:
            wanted = data * self.parts
            raise SpatialError(f"a mesh of {self} wants {wanted} ranks and has {self.world}")
        self.row, inside = divmod(self.rank, self.parts)
        self._strides = [prod(self.space[axis + 1 :]) for axis in range(len(self.space))]
        lines = zip(self._strides, self.space, strict=True)
        self.coordinates = tuple(inside // step % parts for step, parts in lines)
        self.group: ProcessGroup | None = self._groups()[self.row] if ready else None

    def __str__(self) -> str:
        return f"{self.data} x {'x'.join(map(str, self.space))}"

    def __deepcopy__(self, memo: object) -> Mesh:
        return self  # its groups belong to the process

    @property
    def device(self) -> torch.device:
        """The device of tensors that its collectives take."""
        on_gpu = self.world > 1 and dist.get_backend(self.group) == "nccl"
        return torch.device("cuda" if on_gpu else "cpu")

    def neighbour(self, axis: int, step: int) -> int | None:
        """The rank `step` parts further along `axis`; None beyond the border."""
        inside = 0 <= self.coordinates[axis] + step < self.space[axis]
        return self.rank + step * self._strides[axis] if inside else None

    def slab(self, sizes: Sequence[int]) -> tuple[slice, ...]:
        """This rank's part of a volume of `sizes`; raises SpatialError if one is not divisible."""
        if len(sizes) != len(self.space):
            raise SpatialError(f"a volume of {len(sizes)} dimensions on a mesh of {self}")
        steps = map(split, sizes, self.space)
        return tuple(
            slice(at * n, (at + 1) * n) for at, n in zip(self.coordinates, steps, strict=True)
        )

    def part(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's part of `x`, whose last dimensions are those of space."""
        return cut(x, self.slab(x.shape[-len(self.space) :]))

    def sum_(self, values: torch.Tensor) -> torch.Tensor:
        """`values` become their sum over the parts of a sample, in place; returns them."""
        if self.parts > 1:
            dist.all_reduce(values, group=self.group)
        return values

    def mean_over_all(self, value: torch.Tensor) -> float:
        """The mean over all ranks of a number: the loss to print."""
        total = value.detach().to(self.device, torch.float64, copy=True)
        if self.world > 1:
            dist.all_reduce(total)
        return total.item() / self.world

    def gather(self, values: torch.Tensor) -> torch.Tensor:
        """The `values` of all parts, stacked in the order of ranks."""
        rows = [torch.empty_like(values) for _ in range(self.parts)]
        dist.all_gather(rows, values.contiguous(), group=self.group)
        return torch.stack(rows)

    def layout(self, shape: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Planes of each part along each dimension; `shape` is (batch, channels, *own sizes).

        Collective over the parts. Raises SpatialError on all of them if they do not fit together.
        """
        own = torch.tensor(shape, dtype=torch.int64, device=self.device)
        return fitting(self.gather(own).tolist(), self)

    def _groups(self) -> list[ProcessGroup]:
        """One of its own for the space of each sample: DistributedDataParallel talks on another."""
        starts = range(0, self.world + 1, self.parts)
        return [dist.new_group(list(range(a, b))) for a, b in pairwise(starts)]
