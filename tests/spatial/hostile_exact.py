"""Forwards that compute with the size of their input: exact, for sizes are those of the volume.

Each is what users write between two layers: a function of a tensor of batch, channels and volume.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

Between = Callable[[Any, Any], Any]


class Block(nn.Module):
    """A module of its own, which reads sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv3d(4, 4, 3, padding=1)

    def forward(self, x: Any) -> Any:
        """A mean by hand, of sizes."""
        return self.layer(x).sin() / x.shape[2]


class Hostile(nn.Module):
    """Two convolutions, and `between` in the middle."""

    def __init__(self, between: Between) -> None:
        super().__init__()
        self.first, self.last = nn.Conv3d(2, 4, 3, padding=1), nn.LazyConv3d(3, 1)
        self.pool, self.squeeze = nn.AdaptiveAvgPool3d(1), nn.Flatten()
        self.block = Block()
        self.between, self.place = between, torch.linspace(0, 1, 8).view(1, 1, 8, 1, 1).double()

    def forward(self, x: torch.Tensor) -> Any:
        """Three values for each voxel."""
        return self.last(self.between(self, self.first(x)))


def _gated(net: Any, x: Any) -> Any:
    b, c, *_sizes = x.size()
    return x * torch.sigmoid(net.pool(x).view(b, c)).view(b, c, 1, 1, 1)


def _milesial(_: Any, x: Any) -> Any:
    low = functional.interpolate(x, scale_factor=2)
    more = low.size(2) - 2 * x.size(2)
    return functional.pad(low, [0, 0, 0, 0, more // 2, more - more // 2])


def _in_place(_: Any, x: Any) -> Any:
    y = x.clone()
    y /= x.shape[2]
    return y


EXACT: dict[str, Between] = {
    "divided by shape[2]": lambda _, x: x / x.shape[2],
    "size(2) by name": lambda _, x: x * x.size(dim=-3) ** 0.5,
    "size() unpacked": lambda _, x: x / math.prod(x.size()[2:]),
    "numel": lambda _, x: x * (1000 / x.numel()),
    "nelement": lambda _, x: x * (1000 / torch.numel(x)),
    "root of the volume": lambda _, x: x / math.sqrt(x.shape[-1] * x.shape[2]),
    "in place": _in_place,
    "numpy of a size": lambda _, x: x * float(np.log(x.shape[2])),
    "mean of positions": lambda _, x: x + torch.arange(x.size(2)).double().mean(),
    "tensor of sizes": lambda _, x: x / torch.tensor(x.shape[2:]).double().prod(),
    "a choice by size": lambda _, x: x.relu() if x.shape[2] > 6 else x,
    "loops by size": lambda _, x: x * sum(1.0 for _plane in range(x.shape[2])),
    "after a pool": lambda _, x: (y := functional.interpolate(x, scale_factor=2)) / y.shape[2],
    "sum of channels over sizes": lambda _, x: x + x.sum(1, keepdim=True) / x.shape[2],
    "gate": _gated,
    "pad by difference": _milesial,
    "block, checkpointed": lambda net, x: checkpoint(net.block, x, use_reentrant=False),
    "sizes of zero": lambda _, x: x + torch.zeros(()).to(x).expand(x.shape[0], 1, 1, 1, 1),
    "expanded as it": lambda _, x: x + torch.ones(1, 1, 1, 1, 1).to(x).expand_as(x) / x.shape[2],
    "bytes": lambda _, x: x / x.nbytes,
    "expanded scalar": lambda _, x: x * torch.ones(1, 1, 1, 1, 1).to(x) / x.shape[3],
    "of data": lambda _, x: x / x.data.shape[2],
    "of a clone without gradient": lambda _, x: x / x.detach().clone().shape[2],
    "of zeros": lambda _, x: x / torch.zeros_like(x).shape[2],
    "of a part of channels": lambda _, x: torch.cat([x[:, :2], x[:, 2:] / x[:, 2:].shape[2]], 1),
    "len of a list of sizes": lambda _, x: x / len([*range(x.shape[2])]),
    "pooled mean by hand": lambda net, x: x - net.pool(x) * (x.shape[2] / 8),
    "size as text": lambda _, x: x / float(f"{x.shape[2]}"),
    "shape of the input of relu_": lambda _, x: x.relu_() / x.shape[2],
}
