"""Models of `buckets`: 32 MiB of gradients each, whose layers take their time by sleeping."""

from dataclasses import dataclass
from typing import Any

import torch

from contrib.bench.common.asleep import Asleep

MIB = 1 << 20
WIDTH = 256
FORWARD_S, BACKWARD_S = 0.1, 0.3


@dataclass(frozen=True, slots=True)
class Layer:
    """MiB of its gradients, and its share of the model's computing."""

    mib: int
    share: float


SHAPES: dict[str, tuple[Layer, ...]] = {
    # Equal layers.
    "chain": tuple(Layer(4, 1 / 8) for _ in range(8)),
    # Convolutions that compute, and a large classifier whose gradients are ready first.
    "tail": (*[Layer(1, 0.115) for _ in range(8)], Layer(16, 0.06), Layer(8, 0.02)),
    # Equal blocks behind a large embedding, whose gradients are ready last.
    "embedding": (Layer(12, 0.02), *[Layer(2, 0.098) for _ in range(10)]),
}
"""By name: layers in the order of the forward pass."""


class Model(torch.nn.Module):
    """Layers of a shape; each has a matrix of its size, and hands on as many numbers as it got."""

    def __init__(self, shape: str) -> None:
        super().__init__()
        self.shape = SHAPES[shape]
        rows = [layer.mib * MIB // 4 // WIDTH for layer in self.shape]
        self.layers = torch.nn.ModuleList(
            [torch.nn.Linear(WIDTH, count, bias=False) for count in rows]
        )

    def forward(self, data: Any) -> Any:
        """Through all layers; the gradient of a layer is ready once it has slept its share."""
        asleep: Any = Asleep.apply
        for layer, linear in zip(self.shape, self.layers, strict=True):
            times = layer.share * FORWARD_S, layer.share * BACKWARD_S
            data = asleep(linear(data), *times).view(len(data), -1, WIDTH).mean(1)
        return data
