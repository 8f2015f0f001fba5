"""What the scenarios share: their list by group, a dataset of numbers, a loop that changes it."""

# ruff: noqa: D103 - written as jobs are, each named by what it does

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

GROUPS: dict[str, list[Callable[[], Any]]] = {}


def scenario(group: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def keep(function: Callable[[], Any]) -> Callable[[], Any]:
        GROUPS.setdefault(group, []).append(function)
        return function

    return keep


def named_scenarios(module: dict[str, Any], **groups: str) -> None:
    for group, names in groups.items():
        for name in names.split():
            scenario(group)(module[name])


class Numbers(Dataset[Any]):
    """Item i is `make(i)`."""

    def __init__(self, make: Callable[[int], Any] = torch.tensor, length: int = 96) -> None:
        self.make = make
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


LATE = 12  # batches, after which workers have been at work for long


def read(data: Dataset[Any], change: Callable[[int], Any], epochs: int = 1, **named: Any) -> Any:
    """All that a loop sees which calls `change` with a number after each batch."""
    seen = []
    for _ in range(epochs):
        for number, batch in enumerate(DataLoader(data, batch_size=4, **named)):
            seen += batch.tolist()
            change(number)
    return seen


def flat(loader: Any, epochs: int = 1) -> list[list[int]]:
    return [[i for batch in loader for i in batch.tolist()] for _ in range(epochs)]


def in_worker() -> bool:
    return get_worker_info() is not None
