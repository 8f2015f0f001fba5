"""Losses over whole volumes, scaled for gradients that are averaged over all ranks."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

from slurm_ext.spatial.geometry.errors import SpatialError

if TYPE_CHECKING:
    from slurm_ext.spatial.geometry.mesh import Mesh

BY_CLASS = (nn.CrossEntropyLoss, nn.NLLLoss)
BY_ELEMENT = (
    nn.MSELoss,
    nn.L1Loss,
    nn.SmoothL1Loss,
    nn.HuberLoss,
    nn.BCELoss,
    nn.BCEWithLogitsLoss,
    nn.SoftMarginLoss,
)


class GlobalLoss(nn.Module):
    """`criterion`, a mean of torch's, over all voxels of all ranks.

    Its value is this rank's sum, divided by the global count and times the number of ranks: so
    the mean of gradients over all ranks, as DistributedDataParallel takes it, is the serial loss's
    gradient; `mesh.mean_over_all(loss)` is the serial loss. Raises SpatialError for other losses.
    """

    def __init__(self, criterion: nn.Module, mesh: Mesh) -> None:
        super().__init__()
        reduction = getattr(criterion, "reduction", None)
        if type(criterion) not in (*BY_CLASS, *BY_ELEMENT) or reduction != "mean":
            raise SpatialError(
                f"{type(criterion).__name__} with reduction {reduction!r} is no plain mean: make it"
                " of sums, by slurm_ext.spatial.layers.collectives.summed"
            )
        summing: Any = copy.copy(criterion)
        summing.reduction = "sum"
        self.criterion = summing
        self.mesh = mesh

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The loss to call backward on; collective over all ranks."""
        total: torch.Tensor = self.criterion(output, target)
        count = self._count(output, target).to(total)
        if self.mesh.world > 1:
            dist.all_reduce(count)
        scaled: torch.Tensor = total * (self.mesh.world / count)
        return scaled

    def _count(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The divisor of torch's mean: elements, or weights of the targets' classes."""
        criterion: Any = self.criterion
        with torch.no_grad():
            if type(criterion) not in BY_CLASS:
                return output.new_tensor(output.numel(), dtype=torch.float64)
            if target.is_floating_point():
                return output.new_tensor(output.numel() / output.shape[1], dtype=torch.float64)
            kept = target[target != criterion.ignore_index]
            weight = criterion.weight
            weights = torch.ones_like(kept, dtype=torch.float64) if weight is None else weight[kept]
            return weights.sum(dtype=torch.float64)
