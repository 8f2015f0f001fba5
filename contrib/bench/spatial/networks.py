"""Networks that the benchmark divides."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn

Norm = Callable[[int], nn.Module]


def block(inputs: int, outputs: int, norm: Norm) -> nn.Module:
    """Two convolutions with norms."""
    return nn.Sequential(
        nn.Conv3d(inputs, outputs, 3, padding=1),
        norm(outputs),
        nn.ReLU(inplace=True),
        nn.Conv3d(outputs, outputs, 3, padding=1),
        norm(outputs),
        nn.ReLU(inplace=True),
    )


class BenchUNet(nn.Module):
    """3-D U-Net of two levels."""

    def __init__(self, norm: Norm, width: int = 8) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width]
        self.first, self.pool = block(1, width, norm), nn.MaxPool3d(2)
        self.down = nn.ModuleList(block(a, b, norm) for a, b in pairwise(widths))
        self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in pairwise(widths))
        self.join = nn.ModuleList(block(2 * a, a, norm) for a in widths[:2])
        self.head = nn.Conv3d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> Any:
        """A number for each voxel."""
        top = self.first(x)
        low = self.down[0](self.pool(top))
        x = self.up[1](self.down[1](self.pool(low)))
        x = self.join[1](torch.cat([x, low], 1))
        return self.head(self.join[0](torch.cat([self.up[0](x), top], 1)))


def chain() -> nn.Module:
    """Kernels 3, 5 and 1, strides, dilation, groups, both norms, two kinds of pooling."""
    return nn.Sequential(
        nn.Conv3d(1, 8, 3, padding=1),
        nn.BatchNorm3d(8),
        nn.ReLU(),
        nn.Conv3d(8, 8, 5, padding=2, groups=2),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.MaxPool3d(3, 2, 1),
        nn.Conv3d(8, 8, 3, padding=2, dilation=2, bias=False),
        nn.AvgPool3d(3, 1, 1),
        nn.Conv3d(8, 4, 1),
        nn.ConvTranspose3d(4, 4, 2, 2),
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "chain": chain,
    "unet, batch norm": lambda: BenchUNet(nn.BatchNorm3d),
    "unet, group norm": lambda: BenchUNet(lambda channels: nn.GroupNorm(4, channels)),
}
