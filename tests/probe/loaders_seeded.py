"""Trainings that pinned their seeds."""

# ruff: noqa: D103 - written as jobs are, each named by what it does

import random
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from tests.probe.loader_frame import Numbers, scenario


def seeded(loader: Any, epochs: int = 3) -> list[Any]:
    """Epochs and, after each, what the job's own random streams give: dropout, say."""
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)
    out: list[Any] = []
    for _ in range(epochs):
        out.extend([b.tolist(), float(torch.rand(())), random.random()] for b in loader)
    return out


@scenario("seeded")
def shuffle_only() -> Any:
    return seeded(DataLoader(Numbers(), batch_size=4, shuffle=True))


@scenario("seeded")
def shuffle_with_a_generator() -> Any:
    generator = torch.Generator().manual_seed(11)
    return seeded(DataLoader(Numbers(), batch_size=4, shuffle=True, generator=generator))


@scenario("seeded")
def augmented_with_torch() -> Any:
    return seeded(DataLoader(Numbers(lambda i: torch.rand(()) + i), batch_size=4, shuffle=True))


@scenario("seeded")
def augmented_rarely() -> Any:
    """The first draw comes long after the workers were opened."""
    make = lambda i: torch.tensor(i + (random.random() if i == 60 else 0.0))  # noqa: E731
    return seeded(DataLoader(Numbers(make), batch_size=4))


@scenario("seeded")
def augmented_rarely_with_numpy() -> Any:
    make = lambda i: torch.tensor(i + (np.random.rand() if i == 60 else 0.0))  # noqa: E731
    return seeded(DataLoader(Numbers(make), batch_size=4))


@scenario("seeded")
def augmented_in_workers() -> Any:
    loader = DataLoader(Numbers(lambda i: torch.rand(()) + i), batch_size=4, num_workers=2)
    return seeded(loader)
