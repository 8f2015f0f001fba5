"""Data sets with lists out of a look's reach, and a loop over one that calls a function."""

# ruff: noqa: D101, D103 - written as jobs are, each named by what it does

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

FAR = 400  # items from here on are out of a look's reach


class Annotated(Dataset[Any]):
    """Annotations are dicts, made by a method that writes to them."""

    def __init__(self) -> None:
        self.notes: list[Any] = [{"weight": 1, "target": {"label": 0}} for _ in range(FAR + 96)]
        self._number()

    def _number(self) -> None:
        for number, note in enumerate(self.notes):
            note["weight"] = number % 7

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Any:
        note = dict(self.notes[FAR + index])
        note["label"] = note["target"]["label"] + index
        return torch.tensor(note["weight"] * 1000 + note["label"])


def ahead(number: int) -> int:
    """An item that a later batch reads."""
    return FAR + (4 * number + 30) % 96


def seen_by(data: Dataset[Any], change: Callable[[int], Any]) -> list[Any]:
    seen = []
    for number, batch in enumerate(DataLoader(data, batch_size=4)):
        seen += batch.tolist()
        change(number)
    return seen


class Mapped(Dataset[Any]):
    """A file of numbers, mapped as numpy does where nobody says how: for writing, too."""

    def __init__(self, path: str) -> None:
        np.repeat(np.arange(96.0), 3000).tofile(path)
        self.table = np.memmap(path, np.float64, shape=(96, 3000))

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(self.table[index].sum())


class OfAClass(Annotated):
    table: ClassVar = [{"weight": n} for n in range(FAR + 96)]

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(self.table[FAR + index]["weight"])


def handed_on(loader: Any) -> Any:
    for batch in loader:  # noqa: UP028 - as it is written where there is more to do
        yield batch
