"""Loaders without workers, of which one fetch shows that they have to stay at home."""

# ruff: noqa: D101, D103 - written as jobs are, each named by what it does

import os
import tempfile
import threading
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from tests.probe.loader_frame import Numbers, read, scenario

_RNG = np.random.default_rng(5)


@scenario("alone")
def counts_in_a_dict() -> Any:
    hits = {0: 0, 1: 0}

    def make(index: int) -> Any:
        hits[index % 2] += 1
        return torch.tensor(index)

    return [read(Numbers(make), lambda _: None), hits]


@scenario("alone")
def generator_of_the_module() -> Any:
    def make(index: int) -> Any:
        return torch.tensor(index + _RNG.uniform())

    return read(Numbers(make), lambda _: None)


@scenario("alone")
def place_in_a_file() -> Any:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(range(96)))
        file.flush()
        number = os.dup(file.fileno())

    def make(index: int) -> Any:
        os.lseek(number, index, os.SEEK_SET)
        return torch.tensor(os.read(number, 1)[0])

    return read(Numbers(make), lambda _: None)


@scenario("alone")
def items_themselves() -> Any:
    """The loop writes to the items that the dataset keeps."""
    kept = [{"index": index, "seen": 0} for index in range(400)]
    data, seen = Numbers(lambda index: kept[300 + index]), []
    for _ in range(2):
        for batch in DataLoader(data, batch_size=4, collate_fn=list):
            for item in batch:
                item.update(seen=item["seen"] + 1)
                seen.append(item["seen"])
    return seen


@scenario("alone")
def views_of_an_array() -> Any:
    """The loop writes to batches that are a part of the dataset's array."""
    array = np.arange(96.0)
    data = Numbers(lambda index: torch.from_numpy(array[index : index + 1]), 90)
    seen = []
    for batch in DataLoader(data, batch_size=None):
        batch.mul_(2)
        seen += batch.tolist()
    return [seen, array.tolist()]


@scenario("alone")
def seeds_in_a_fetch() -> Any:
    def make(index: int) -> Any:
        torch.manual_seed((1 << 40) + index)
        return torch.tensor(index)

    seen = []
    for batch in DataLoader(Numbers(make), batch_size=4):
        seen += [*batch.tolist(), float(torch.rand(1))]
    return seen


class OfAWorker(Dataset[Any]):
    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(index + 100 * (get_worker_info() is not None))


@scenario("alone")
def asks_for_its_worker() -> Any:
    return read(OfAWorker(), lambda _: None)


@scenario("alone")
def one_item_of_many() -> Any:
    """Annotations in dicts; the loop writes to one that no look reaches."""
    items = [{"weight": 1} for _ in range(500)]

    def change(number: int) -> None:
        items[400 + (4 * number + 6) % 96]["weight"] += number

    return read(Numbers(lambda index: torch.tensor(items[400 + index]["weight"])), change)


@scenario("alone")
def lock_and_a_thread() -> Any:
    """A worker that is forked while the thread holds the lock would wait for ever."""
    lock, over = threading.Lock(), threading.Event()
    threading.Thread(target=over.wait, daemon=True).start()

    def make(index: int) -> Any:
        with lock:
            return torch.tensor(index)

    seen = read(Numbers(make), lambda _: None)
    over.set()
    return seen
