"""Loaders without workers, whose data the loop changes between two batches."""

# ruff: noqa: D101, D103 - written as jobs are, each named by what it does

import collections
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler, get_worker_info

from tests.probe.loader_frame import Numbers, scenario

SETTINGS = {"shift": 0}
shift = 0


class Levelled(Dataset[Any]):
    of_all = 0

    def __init__(self) -> None:
        self.level = 0
        self.labels = torch.zeros(96, dtype=torch.int64)
        self.array = np.zeros(96, dtype=np.int64)
        self.net = torch.nn.Linear(1, 1)
        torch.nn.init.constant_(self.net.weight, 0.5)
        self.shared = multiprocessing.Value("i", 0)

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Any:
        noted = int(self.labels[index]) + int(self.array[index]) + self.shared.value
        weight = int(self.net.weight.detach().abs().sum() * 1e6)
        return torch.tensor(index + self.level + self.of_all + noted + weight)


def read(data: Dataset[Any], change: Callable[[int], Any], epochs: int = 1, **named: Any) -> Any:
    """All that a loop sees which calls `change` with a number after each batch."""
    seen = []
    for _ in range(epochs):
        for number, batch in enumerate(DataLoader(data, batch_size=4, **named)):
            seen += batch.tolist()
            change(number)
    return seen


@scenario("changed")
def attribute() -> Any:
    data = Levelled()
    return read(data, lambda number: setattr(data, "level", number))


@scenario("changed")
def attribute_of_the_class() -> Any:
    return read(Levelled(), lambda number: setattr(Levelled, "of_all", number))


@scenario("changed")
def attribute_late_in_the_second_pass() -> Any:
    """The first pass changed nothing, so that there is no trial any more."""
    data, calls = Levelled(), []

    def change(number: int) -> None:
        calls.append(number)
        if len(calls) > 24 + 12:
            data.level = number * 10

    return read(data, change, epochs=2)


@scenario("changed")
def labels_in_place() -> Any:
    data = Levelled()
    return read(data, lambda number: data.labels[4 * number + 4 :].fill_(number))


@scenario("changed")
def array_in_place() -> Any:
    data = Levelled()
    return read(data, lambda number: data.array[4 * number + 4 :].fill(number))


@scenario("changed")
def number_that_processes_share() -> Any:
    data = Levelled()
    return read(data, lambda number: setattr(data.shared, "value", number))


@scenario("changed")
def model_that_trains() -> Any:
    data = Levelled()

    def step(_: int) -> None:
        with torch.no_grad():
            data.net.weight.mul_(0.9)

    return read(data, step)


@scenario("changed")
def variable_of_the_module() -> Any:
    def make(index: int) -> Any:
        return torch.tensor(index + SETTINGS["shift"])

    return read(Numbers(make), lambda number: SETTINGS.update(shift=number))


@scenario("changed")
def name_of_the_module() -> Any:
    def make(index: int) -> Any:
        return torch.tensor(index + shift)

    return read(Numbers(make), lambda number: globals().update(shift=number))


@scenario("changed")
def variable_of_a_closure() -> Any:
    level = 0

    def change(number: int) -> None:
        nonlocal level
        level = number

    return read(Numbers(lambda index: torch.tensor(index + level)), change)


@scenario("changed")
def collate_function() -> Any:
    class Masked:
        part = 0

        def __call__(self, items: list[Any]) -> Any:
            return torch.stack(items) + self.part

    collate = Masked()
    return read(Numbers(), lambda number: setattr(collate, "part", number), collate_fn=collate)


@scenario("open")
def loop_that_writes_elsewhere() -> Any:
    """The loop's own counts, and a model that the collate function holds: nothing of the data."""
    counts: dict[str, int] = {}
    net = torch.nn.Linear(1, 1)

    class Collate:
        def __init__(self) -> None:
            self.model = net

        def __call__(self, items: list[Any]) -> Any:
            return torch.stack(items)

    def change(number: int) -> None:
        counts[str(number)] = number
        with torch.no_grad():
            net.weight.mul_(0.9)

    return read(Numbers(), change, epochs=2, collate_fn=Collate())


@scenario("changed")
def items_of_a_long_list() -> Any:
    labels = [0] * 300
    data = Numbers(lambda index: torch.tensor(index + labels[200 + index]))

    def change(number: int) -> None:
        labels[200 + 4 * number + 4 :] = [number] * len(labels[200 + 4 * number + 4 :])

    return read(data, change)


@scenario("open")
def setting_written_again() -> Any:
    """A value that is equal to the one before it changes nothing."""
    data = Levelled()
    data.level = 1000
    return read(data, lambda _: setattr(data, "level", int("1000")))


# -- out of an easy look's reach -------------------------------------------------------------

LATE = 12  # batches, after which workers have been at work for long


@scenario("changed")
def large_array_in_place() -> Any:
    """Two hundred kilobytes, of which one number is written."""
    array = np.zeros((96, 300))

    def change(number: int) -> None:
        if number >= LATE:
            array[4 * number + 4 :, 7] = number

    return read(Numbers(lambda index: torch.tensor(index + array[index].sum())), change)


@scenario("changed")
def tensor_by_its_array() -> Any:
    """A count of writes that torch does not raise."""
    tensor = torch.zeros(96, 300)
    array = tensor.numpy()

    def change(number: int) -> None:
        if number >= LATE:
            array[4 * number + 4 :, 7] = number

    return read(Numbers(lambda index: tensor[index].sum() + index), change)


@scenario("changed")
def large_array_before_another_fork() -> Any:
    """A process that is forked after the write has the written page in common again."""
    array = np.zeros((96, 300))

    def change(number: int) -> None:
        if number >= LATE:
            array[4 * number + 4 :, 7] = number
            if not (child := os.fork()):
                os._exit(0)
            os.waitpid(child, 0)

    return read(Numbers(lambda index: torch.tensor(index + array[index].sum())), change)


@scenario("changed")
def deque_of_fixed_length() -> Any:
    buffer = collections.deque([0] * 96, maxlen=96)
    return read(Numbers(lambda index: torch.tensor(index + buffer[index])), buffer.append)


@scenario("changed")
def environment() -> Any:
    def make(index: int) -> Any:
        return torch.tensor(index + int(os.environ.get("LEVEL", "0")))

    return read(Numbers(make), lambda number: os.environ.update(LEVEL=str(number)))


@scenario("changed")
def indices_of_the_sampler() -> Any:
    """Torch's sampler reads its list as it goes."""
    torch.manual_seed(1 << 40)
    sampler = SubsetRandomSampler(list(range(96)))

    def change(number: int) -> None:
        sampler.indices[:] = [index + 1 for index in sampler.indices]  # type: ignore[index]

    return read(Numbers(), change, sampler=sampler)


@scenario("changed")
def size_of_the_batches() -> Any:
    loader = DataLoader(Numbers(), batch_size=4)
    seen = []
    for number, batch in enumerate(loader):
        seen.append(batch.tolist())
        loader.batch_sampler.batch_size = 4 + number % 3  # type: ignore[union-attr]
    return seen


# -- what one fetch shows --------------------------------------------------------------------

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


@scenario("alone")
def mapped_file_to_write() -> Any:
    with tempfile.NamedTemporaryFile() as file:
        array = np.memmap(file.name, np.float64, "w+", shape=(96,))
        return read(Numbers(lambda index: torch.tensor(index + array[index])), lambda _: None)


@scenario("open")
def warned_by_a_signal() -> Any:
    """A handler of the program's runs in the training alone, whomever the signal reaches."""
    heard = multiprocessing.Value("i", 0)

    def hear(*_: Any) -> None:
        heard.value += 1

    before = signal.signal(signal.SIGUSR1, hear)

    def change(number: int) -> None:
        if number == LATE:
            for child in multiprocessing.active_children():
                os.kill(child.pid or 0, signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGUSR1)

    seen = read(Numbers(), change)
    signal.signal(signal.SIGUSR1, before)
    return [seen, heard.value]
