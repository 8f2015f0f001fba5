"""A residual network of eighteen layers (He et al., 2016), so that torch alone is needed."""

from typing import Any

import torch
from torch import nn

from contrib.bench.gpu.programs.device import Device
from contrib.bench.gpu.programs.samples import CLASSES

STAGES = 4
BLOCKS = 2  # of a stage


class Block(nn.Module):
    """Two convolutions, and the way around them."""

    def __init__(self, width: int, wider: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, wider, 3, stride, 1, bias=False),
            nn.BatchNorm2d(wider),
            nn.ReLU(),
            nn.Conv2d(wider, wider, 3, 1, 1, bias=False),
            nn.BatchNorm2d(wider),
        )
        around = nn.Conv2d(width, wider, 1, stride, bias=False)
        self.around = nn.Identity() if (width, stride) == (wider, 1) else around

    def forward(self, data: Any) -> Any:
        """Both ways, added."""
        return torch.relu(self.body(data) + self.around(data))


def network(first: int) -> Any:
    """The network with so many channels in its first stage."""
    layers: list[nn.Module] = [nn.Conv2d(3, first, 7, 2, 3, bias=False), nn.MaxPool2d(3, 2, 1)]
    width = first
    for stage in range(STAGES):
        for block in range(BLOCKS):
            stride = 2 if stage and not block else 1
            layers.append(Block(width, first << stage, stride))
            width = first << stage
    end = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))
    return nn.Sequential(*layers, *end)


class Steps:
    """Training steps of the network on this device."""

    def __init__(self, device: Device, wrap: Any = lambda model: model) -> None:
        self._device, self.side = device, device.size(224, 32)
        torch.manual_seed(0)
        self.model = wrap(network(device.size(64, 4)).to(device.name))
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self._done = 0

    def run(self, batch: Any) -> None:
        """One step; every tenth one asks for its loss, as programs that log do."""
        images, classes = (part.to(self._device.name, non_blocking=True) for part in batch)
        self._optimizer.zero_grad()
        loss: Any = nn.functional.cross_entropy(self.model(images.float() / 255), classes)
        loss.backward()
        self._optimizer.step()
        self._done += 1
        if self._done % 10 == 0:
            float(loss)
