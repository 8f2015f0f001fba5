"""Dropout on slabs under activation checkpointing: refused, for its masks would differ."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.layers.dropout import Masks


def dropped(layer: nn.Dropout, x: torch.Tensor) -> torch.Tensor:
    """`x` as one rank drops it."""
    mesh: Any = SimpleNamespace(row=0, rank=0)
    return Masks(mesh, seed=1).drop(layer, x, is_whole=False) * x


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_block_that_is_computed_again_is_refused(reentrant: bool) -> None:
    """In the backward pass the error says what to do; without checkpointing nothing is said."""
    x = torch.ones(4, 4, requires_grad=True)
    torch.autograd.grad(dropped(nn.Dropout(0.5), x).sum(), x)
    loss: Any = checkpoint(dropped, nn.Dropout(0.5), x, use_reentrant=reentrant).sum()
    with pytest.raises(SpatialError, match="leave the block with dropout out"):
        loss.backward()


def test_one_that_drops_nothing_is_not() -> None:
    """In evaluation there is no mask to draw."""
    x = torch.ones(4, 4, requires_grad=True)
    checkpoint(dropped, nn.Dropout(0.5).eval(), x, use_reentrant=False).sum().backward()
    assert x.grad is not None
