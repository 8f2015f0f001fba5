"""Sizes of all parts at each layer: agreed on at the first pass, remembered for later ones."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from slurm_ext.spatial.errors import SpatialError

if TYPE_CHECKING:
    import torch

    from slurm_ext.spatial.collectives import Layout
    from slurm_ext.spatial.mesh import Mesh


class Layouts:
    """The layouts of one model on one mesh.

    Each pass begins with one small gather of the input's sizes, so that all ranks know the same
    key; under it each layer's layout is gathered once. A slab that does not fit is found there, by
    all ranks, and not by a hang.
    """

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._input: Layout | None = None
        self._calls: Counter[str] = Counter()
        self._known: dict[tuple[Layout, str, int], Layout] = {}

    def begin(self, x: torch.Tensor) -> None:
        """Start a pass with input `x`; collective over the parts. Raises SpatialError."""
        self._calls.clear()
        self._input = None
        self._input = self._agreed(x)

    def of(self, layer: str, x: torch.Tensor) -> Layout:
        """The layout of `x`, which enters `layer`; collective at the first pass of its size."""
        if self._input is None:  # a part of the model is called by itself
            return self._agreed(x)
        key = (self._input, layer, self._calls[layer])
        self._calls[layer] += 1
        if key not in self._known:
            self._known[key] = self._agreed(x)
        found = self._known[key]
        own = tuple(sizes[at] for sizes, at in zip(found, self.mesh.coordinates, strict=True))
        if own != tuple(x.shape[2:]):
            raise SpatialError(
                f"a slab of {tuple(x.shape[2:])} where earlier passes over the same input had {own}"
            )
        return found

    def _agreed(self, x: torch.Tensor) -> Layout:
        space = len(self.mesh.space)
        found = self.mesh.layout(x.shape if x.dim() == space + 2 else [-1] * (space + 2))
        if min(map(min, found)) < 0:
            raise SpatialError(f"a tensor without batch, channels and {space} dimensions of space")
        return found
