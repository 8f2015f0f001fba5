"""Loaders without workers, whose data the loop changes between two batches."""

# ruff: noqa: D101, D103 - written as jobs are, each named by what it does

import multiprocessing
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from tests.probe.loader_frame import Numbers, read, scenario

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


@scenario("open")
def setting_written_again() -> Any:
    """A value that is equal to the one before it changes nothing."""
    data = Levelled()
    data.level = 1000
    return read(data, lambda _: setattr(data, "level", int("1000")))


@scenario("changed")
def items_of_a_long_list() -> Any:
    labels = [0] * 300
    data = Numbers(lambda index: torch.tensor(index + labels[200 + index]))

    def change(number: int) -> None:
        labels[200 + 4 * number + 4 :] = [number] * len(labels[200 + 4 * number + 4 :])

    return read(data, change)
