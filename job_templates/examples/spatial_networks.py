"""Two ordinary networks on volumes, written as always: nothing in them knows of slabs."""

from itertools import pairwise

import torch
from torch import nn


class Block(nn.Sequential):
    """Two convolutions with batch norm."""

    def __init__(self, inputs, outputs):
        super().__init__(
            nn.Conv3d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm3d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv3d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm3d(outputs),
            nn.ReLU(inplace=True),
        )


class UNet3d(nn.Module):
    """3-D U-Net (Cicek, 2016): a class for each voxel."""

    def __init__(self, width=8, levels=2, classes=2):
        super().__init__()
        widths = [width * 2**level for level in range(levels + 1)]
        pairs = list(pairwise(widths))
        self.first = Block(1, width)
        self.down = nn.ModuleList(Block(a, b) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in reversed(pairs))
        self.join = nn.ModuleList(Block(2 * a, a) for a, _ in reversed(pairs))
        self.pool = nn.MaxPool3d(2)
        self.head = nn.Conv3d(width, classes, 1)

    def forward(self, x):
        x = self.first(x)
        skipped = []
        for block in self.down:
            skipped.append(x)
            x = block(self.pool(x))
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([up(x), skipped.pop()], 1))
        return self.head(x)


class CosmoFlow(nn.Sequential):
    """Like CosmoFlow (Mathuriya, 2018): numbers of a whole volume, here three."""

    def __init__(self, size, width=8, levels=3, outputs=3):
        widths = [1, *(width * 2**level for level in range(levels))]
        layers = []
        for a, b in pairwise(widths):
            layers += [nn.Conv3d(a, b, 3, padding=1), nn.LeakyReLU(0.01), nn.MaxPool3d(2)]
        features = widths[-1] * (size // 2**levels) ** 3
        tail = [
            nn.Linear(features, 32),
            nn.LeakyReLU(0.01),
            nn.Dropout(0.1),
            nn.Linear(32, outputs),
        ]
        super().__init__(*layers, nn.Flatten(), *tail)


def network(name, size):
    """The network and its loss."""
    torch.manual_seed(0)
    if name == "unet":
        return UNet3d(), nn.CrossEntropyLoss()
    return CosmoFlow(size), nn.MSELoss()
