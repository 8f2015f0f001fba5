"""Dropout: slabs draw their own masks, and what all parts hold alike is masked alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from slurm_ext.spatial.geometry.errors import SpatialError

if TYPE_CHECKING:
    from slurm_ext.spatial.geometry.mesh import Mesh

_NO_BACKWARD = -1
Dropouts = nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d


class Masks:
    """Random generators of one model: one that all parts of a sample share, one of this rank."""

    def __init__(self, mesh: Mesh, seed: int) -> None:
        self.seeds = {
            True: seed * 2_000_003 + mesh.row,
            False: seed * 2_000_003 + 1_000_003 + mesh.rank,
        }
        self._known: dict[tuple[bool, torch.device], torch.Generator] = {}

    def drop(self, layer: Dropouts, x: torch.Tensor, *, is_whole: bool) -> torch.Tensor:
        """`x` with a mask over its elements, or over its channels where the layer drops those.

        Raises SpatialError where a backward pass computes a block again.
        """
        if not layer.training or not layer.p:
            return x
        if torch._C._current_graph_task_id() != _NO_BACKWARD:  # noqa: SLF001  # torch has no other way to tell
            raise SpatialError(
                "dropout under activation checkpointing would draw another mask when its block is"
                " computed again: leave the block with dropout out of the checkpointing, or set p=0"
            )
        by_channel = not isinstance(layer, nn.Dropout)
        shape = (*x.shape[:2], *[1] * (x.dim() - 2)) if by_channel else x.shape
        mask = torch.empty(shape, device=x.device, dtype=x.dtype)
        mask.bernoulli_(1 - layer.p, generator=self._generator(is_whole or by_channel, x.device))
        return x * mask.div_(1 - layer.p) if layer.p < 1 else x * mask

    def _generator(self, shared: bool, device: torch.device) -> torch.Generator:
        key = (shared, device)
        if key not in self._known:
            self._known[key] = torch.Generator(device).manual_seed(self.seeds[shared])
        return self._known[key]

    def __deepcopy__(self, memo: object) -> Masks:
        return self  # generators cannot be copied
