"""Loaders whose samplers draw as torch's do, or make a list first, and rows of Arrow's tables."""

# ruff: noqa: D103 - written as jobs are, each named by what it does

import itertools
import random
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Sampler

from tests.probe.loader_frame import Numbers, scenario
from tests.probe.loaders_lifted import trained


class Numbered(BatchSampler):
    """As sentence-transformers has it: torch's own, that is told its epoch besides."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Before each pass, by the trainer."""
        self.epoch = epoch


@scenario("lifted")
def batches_by_a_subclass() -> Any:
    data = Numbers()
    return trained(DataLoader(data, batch_sampler=Numbered(RandomSampler(data), 4, False)))


@scenario("lifted")
def list_of_numpys_numbers() -> Any:
    """As pytorch-metric-learning draws them."""

    class Chosen(Sampler[int]):
        def __init__(self) -> None:
            pass  # torch 1.13's wants an argument

        def __iter__(self) -> Any:
            return iter([*np.random.choice(96, 96)])

        def __len__(self) -> int:
            return 96

    return trained(DataLoader(Numbers(), batch_size=4, sampler=Chosen()))


def buckets() -> list[list[int]]:
    order = [int(n) for n in torch.randperm(96)]
    return [order[first : first + 4] for first in range(0, 96, 4)]


@scenario("lifted")
def batches_made_and_then_given() -> Any:
    """As text is put into buckets: all batches are made, then each is given."""

    class Buckets(Sampler[Any]):
        def __init__(self) -> None:
            pass  # torch 1.13's wants an argument

        def __iter__(self) -> Any:
            batches = buckets()
            random.shuffle(batches)
            for batch in batches:  # noqa: UP028 - as many write it
                yield batch

        def __len__(self) -> int:
            return 24

    return trained(DataLoader(Numbers(), batch_sampler=Buckets()))


@scenario("lifted")
def numbers_given_from_a_list() -> Any:
    class Ordered(Sampler[int]):
        def __init__(self) -> None:
            pass  # torch 1.13's wants an argument

        def __iter__(self) -> Any:
            yield from list(itertools.chain(*buckets()))

        def __len__(self) -> int:
            return 96

    return trained(DataLoader(Numbers(), batch_size=4, sampler=Ordered()))


@scenario("lifted")
def columns_of_arrow() -> Any:
    """As Hugging Face's datasets hold their rows."""
    import pyarrow as pa

    class Rows(Numbers):
        def __init__(self) -> None:
            super().__init__()
            self.table = pa.table({"n": list(range(96))})
            self.schema, self.column = self.table.schema, self.table["n"]

        def __getitem__(self, index: int) -> Any:
            return self.table.slice(index, 1)["n"].to_pylist()[0]

    return trained(DataLoader(Rows(), batch_size=4, shuffle=True))
