"""Loaders without workers, whose dataset notes something while it makes an item."""

# ruff: noqa: D101, D103 - written as jobs are, each named by what it does

import os
from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.probe.loader_frame import Numbers, flat, scenario

BAD = (50, 77)
BAD_FILES: list[int] = []


class Counting(Numbers):
    skipped = 0

    def __getitem__(self, index: int) -> Any:
        self.skipped += index in BAD
        return torch.tensor(index)


@scenario("fallback")
def counts_bad_items_late() -> Any:
    data = Counting()
    return flat(DataLoader(data, batch_size=4), 2), data.skipped


def _note(index: int) -> Any:
    if index in BAD:
        BAD_FILES.append(index)
    return torch.tensor(index)


@scenario("fallback")
def lists_bad_files_late() -> Any:
    return flat(DataLoader(Numbers(_note), batch_size=4), 2), BAD_FILES


@scenario("fallback")
def counts_full_batches_late() -> Any:
    class Collate:
        full = 0

        def __call__(self, items: list[Any]) -> Any:
            self.full += int(max(items)) > max(BAD)
            return torch.stack(items)

    collate = Collate()
    return flat(DataLoader(Numbers(), batch_size=4, collate_fn=collate)), collate.full


class OfItsProcess(Numbers):
    """Opens again what it may not have in common with the process that it was forked from."""

    opened: Any = None

    def __getitem__(self, index: int) -> Any:
        if self.opened is None or self.opened[0] != os.getpid():
            self.opened = os.getpid(), [0] * 96
        return torch.tensor(index + self.opened[1][index])


@scenario("open")
def opens_something_in_each_process() -> Any:
    return flat(DataLoader(OfItsProcess(), batch_size=4), 2)
