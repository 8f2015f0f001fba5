"""Sizes of all parts at each layer: agreed on at the first pass, remembered for later ones."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import torch

from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.geometry.mesh import fitting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_ext.spatial.geometry.mesh import Mesh
    from slurm_ext.spatial.layers.collectives import Layout

    Key = tuple[Layout, ...]
    Volume = tuple[int, ...]

MOST_INPUTS = 8  # tensors with space that a model takes


class Layouts:
    """The layouts of one model on one mesh.

    Each pass begins with one small gather of the input's sizes, so that all ranks know the same
    key; under it each layer's layout is gathered once. A slab that does not fit is found there, by
    all ranks, and not by a hang.
    """

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._input: Key | None = None
        self._calls: Counter[str] = Counter()
        self._known: dict[tuple[Key, str, int], Layout] = {}

    def begin(self, slabs: Sequence[torch.Tensor], *, training: bool) -> list[Volume]:
        """Start a pass over `slabs`, and tell their volumes' sizes; collective over the parts.

        Raises SpatialError on all. What only some ranks did would leave the others waiting: train,
        keep gradients.
        """
        self._calls.clear()
        self._input = None
        own = [training, torch.is_grad_enabled(), len(slabs)]
        for x in slabs[:MOST_INPUTS]:
            own += [x.requires_grad, x.element_size(), *x.shape]
        width = 3 + MOST_INPUTS * (len(self.mesh.space) + 4)
        row = torch.tensor([*own, *[0] * (width - len(own))], device=self.mesh.device)
        self._input = self._agreed_rows(self.mesh.gather(row).tolist())
        return [tuple(map(sum, layout)) for layout in self._input]

    def of(self, layer: str, x: torch.Tensor) -> Layout:
        """The layout of `x`, which enters `layer`; collective at the first pass of its size."""
        if self._input is None:  # a part of the model is called by itself
            return self._agreed(x)
        key = (self._input, layer, self._calls[layer])
        self._calls[layer] += 1
        if key not in self._known:
            self._known[key] = self._agreed(x)
        layout = self._known[key]
        own = tuple(sizes[at] for sizes, at in zip(layout, self.mesh.coordinates, strict=True))
        if own != tuple(x.shape[2:]):
            raise SpatialError(
                f"a slab of {tuple(x.shape[2:])} where earlier passes over the same input had {own}"
            )
        return layout

    def _agreed(self, x: torch.Tensor) -> Layout:
        rank = len(self.mesh.space) + 2
        layout = self.mesh.layout(x.shape if x.dim() == rank else [-1] * rank)
        if min(map(min, layout)) < 0:
            raise SpatialError(f"a tensor of {x.dim()} dimensions; {rank} are wanted")
        return layout

    def _agreed_rows(self, rows: list[list[int]]) -> Key:
        step = len(self.mesh.space) + 4
        count = rows[0][2]
        ways = {(*row[:3], *row[3::step], *row[4::step]) for row in rows}
        if len(ways) > 1:
            raise SpatialError(
                "ranks call the model in different ways (in training or not, with gradients or not,"
                f" with so many inputs of such numbers): {sorted(ways)}"
            )
        if not 1 <= count <= MOST_INPUTS:
            dims = len(self.mesh.space)
            raise SpatialError(
                f"{count} tensors of batch, channels and {dims} dimensions of space; 1 to"
                f" {MOST_INPUTS} are wanted"
            )
        begins = range(5, 5 + count * step, step)
        return tuple(fitting([row[a : a + step - 2] for row in rows], self.mesh) for a in begins)
