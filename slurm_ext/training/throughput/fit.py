"""The fit itself: a small network with torch, weights out as plain arrays."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from slurm_ext.core.stats import fair_weights
from slurm_ext.model.arrays import Array
from slurm_ext.model.throughput.artifact import LOG_SD_RANGE, TARGETS
from slurm_ext.model.throughput.features import WIDTH, features
from slurm_ext.training.throughput.dataset import Example

HIDDEN = 24
STEPS = 400
LEARNING_RATE = 0.02
SHRINK = 1e-3  # weight decay: most scripts are seen once, and the names are many


class Network(torch.nn.Module):
    """The same network as `model.throughput.artifact.forward`, in torch."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        halves = 2 * len(TARGETS)
        self.w1 = _weights(WIDTH, HIDDEN, generator)
        self.b1 = torch.nn.Parameter(torch.zeros(HIDDEN, dtype=torch.float64))
        self.w2 = _weights(HIDDEN, halves, generator)
        self.b2 = torch.nn.Parameter(torch.zeros(halves, dtype=torch.float64))

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Standardised means and log sds."""
        out = torch.tanh(rows @ self.w1 + self.b1) @ self.w2 + self.b2
        half = len(TARGETS)
        return out[:, :half], out[:, half:].clamp(*LOG_SD_RANGE)


def fit(
    train: Sequence[Example], seed: int, progress: Callable[[int, float], None]
) -> tuple[dict[str, Array], Network]:
    """Fit the prior: its weights, and the network. `progress` is called with (step, loss)."""
    torch.set_num_threads(1)  # it runs beside the controller, and more would not be faster
    targets, weights = np.array([example.targets for example in train]), weights_of(train)
    shift = np.average(targets, axis=0, weights=weights)
    spread = np.sqrt(np.average((targets - shift) ** 2, axis=0, weights=weights))
    scale = np.maximum(spread, 0.05)
    rows = torch.from_numpy(matrix(train))
    wanted = torch.from_numpy((targets - shift) / scale)
    network = Network(torch.Generator().manual_seed(seed))
    _descend(network, rows, wanted, torch.from_numpy(weights), progress)
    arrays = {name: value.detach().numpy().copy() for name, value in network.named_parameters()}
    return {**arrays, "shift": shift, "scale": scale, "widen": np.ones(len(TARGETS))}, network


def weights_of(every: Sequence[Example]) -> Array:
    """Weight of each example: no user has more than a share of the fit, or of a score."""
    return np.array(fair_weights([example.known.user for example in every]))


def difference(network: Network, weights: dict[str, Array], rows: Array) -> float:
    """Largest difference between torch's answers and those that `model/` will give."""
    from slurm_ext.model.throughput.artifact import forward

    means, sds = forward(weights, rows)
    with torch.no_grad():
        their_means, their_logs = (tensor.numpy() for tensor in network(torch.from_numpy(rows)))
    scale = weights["scale"]
    of_means = np.abs(weights["shift"] + their_means * scale - means).max(initial=0)
    of_sds = np.abs(np.exp(their_logs) * scale * weights["widen"] - sds).max(initial=0)
    return float(max(of_means, of_sds))


def matrix(every: Sequence[Example]) -> Array:
    """Features of every example, one a row."""
    rows = np.zeros((len(every), WIDTH))
    for row, example in zip(rows, every, strict=True):
        for slot, value in features(example.known).items():
            row[slot] = value
    return rows


def _descend(
    network: Network,
    rows: torch.Tensor,
    wanted: torch.Tensor,
    weights: torch.Tensor,
    progress: Callable[[int, float], None],
) -> None:
    """Full-batch Adam on the Gaussian negative log likelihood: no draw but the first weights."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=SHRINK)
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        means, log_sds = network(rows)
        losses = (log_sds + 0.5 * ((wanted - means) / log_sds.exp()) ** 2).mean(1)
        loss: Any = (losses * weights).sum() / weights.sum()
        loss.backward()
        optimizer.step()
        progress(step, float(loss.detach()))


def _weights(inputs: int, outputs: int, generator: torch.Generator) -> torch.nn.Parameter:
    drawn = torch.randn(inputs, outputs, generator=generator, dtype=torch.float64)
    return torch.nn.Parameter(drawn * 0.3 / inputs**0.5)
