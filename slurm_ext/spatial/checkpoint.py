"""Checkpoints: the serial file, written by one rank, read by any number of them on any mesh."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn


def save(path: str | Path, model: nn.Module, optimizer: torch.optim.Optimizer, **more: Any) -> None:
    """Write {"model", "optimizer", **more}; whole or not at all. Call it on all ranks.

    Weights are equal on all ranks and keep their names, so that this is what serial code writes.
    """
    if not dist.is_initialized() or dist.get_rank() == 0:
        state = {"model": inner(model).state_dict(), "optimizer": optimizer.state_dict(), **more}
        new = Path(f"{path}.new")
        torch.save(state, new)
        os.replace(new, path)  # noqa: PTH105  # as its page says: atomic
    if dist.is_initialized():
        dist.barrier()


def load(path: str | Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Take up a checkpoint of whatever mesh; returns the rest of it, {} where there is no file."""
    if not Path(path).exists():
        return {}
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    inner(model).load_state_dict(state.pop("model"))
    optimizer.load_state_dict(state.pop("optimizer"))
    return state


def inner(model: nn.Module) -> nn.Module:
    """The model that DistributedDataParallel wraps, or the model."""
    wrapped: Any = model
    return wrapped.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
