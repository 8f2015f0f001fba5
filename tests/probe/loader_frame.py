"""What the scenarios of loader_scenarios.py share: their list by group, a dataset of numbers."""

# ruff: noqa: D103 - written as jobs are, each named by what it does

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import Dataset, get_worker_info

GROUPS: dict[str, list[Callable[[], Any]]] = {}


def scenario(group: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def keep(function: Callable[[], Any]) -> Callable[[], Any]:
        GROUPS.setdefault(group, []).append(function)
        return function

    return keep


class Numbers(Dataset[Any]):
    """Item i is `make(i)`."""

    def __init__(self, make: Callable[[int], Any] = torch.tensor, length: int = 96) -> None:
        self.make = make
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


def flat(loader: Any, epochs: int = 1) -> list[list[int]]:
    return [[i for batch in loader for i in batch.tolist()] for _ in range(epochs)]


def in_worker() -> bool:
    return get_worker_info() is not None
