"""Trainings as people write them: `clocks_disagree` judges each.

`python -m tests.probe.programs_clocked` runs all, each in a process of its own, and prints their
process ids by name.
"""

# ruff: noqa: D103, T201 - written as jobs are, each named by what it does

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.probe.in_children import ended_well, import_all_of_torch, in_a_child
from tests.probe.loader_frame import Numbers

MODEL = torch.nn.Linear(4, 1)


def sample(_: int) -> Any:
    return torch.zeros(4)


def loader_of(length: int, **options: Any) -> Any:
    return DataLoader(Numbers(sample, length), **{"batch_size": 8, **options})


def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD(MODEL.parameters(), lr=0.01)


def backward(batch: Any) -> None:
    MODEL(batch).sum().backward()
    time.sleep(0.004)


def step(batch: Any, *steppers: torch.optim.Optimizer) -> None:
    for stepper in steppers:
        stepper.zero_grad()
        backward(batch)
        stepper.step()


def evaluate(loader: Any) -> None:
    with torch.no_grad():
        for batch in loader:
            MODEL(batch)
            time.sleep(0.003)


def plain() -> None:
    loader, chosen = loader_of(400), optimizer()
    for _ in range(3):
        for batch in loader:
            step(batch, chosen)


def validated() -> None:
    loader, held_out, chosen = loader_of(400), loader_of(320), optimizer()
    for _ in range(3):
        for batch in loader:
            step(batch, chosen)
        evaluate(held_out)
        time.sleep(0.2)  # a checkpoint
    evaluate(loader_of(240))  # a test


def accumulated() -> None:
    loader, chosen = loader_of(410), optimizer()
    for _ in range(3):
        for number, batch in enumerate(loader, 1):
            backward(batch)
            if number % 2 == 0:
                chosen.step()
        chosen.step()  # what is left over


def warmed_up() -> None:
    loader, chosen = loader_of(800), optimizer()
    for number, batch in enumerate(loader):
        time.sleep(0 if number else 2)  # a compiler
        step(batch, chosen)


def two_networks() -> None:
    loader, first, second = loader_of(400), optimizer(), optimizer()
    for _ in range(3):
        for number, batch in enumerate(loader):
            step(batch, first)
            if number % 5 == 0:
                step(batch, second)


def several_steps() -> None:
    loader, chosen = loader_of(200), optimizer()
    for _ in range(3):
        for batch in loader:
            for _ in range(3):
                step(batch, chosen)


def scaled() -> None:
    loader, chosen = loader_of(400), optimizer()
    for epoch in range(3):
        for number, batch in enumerate(loader):
            if epoch or number > 8:  # no step until the scale is found
                step(batch, chosen)


def endless() -> None:
    def batches() -> Iterator[Any]:
        loader = loader_of(200)
        while True:
            yield from loader

    chosen, feed, held_out = optimizer(), batches(), loader_of(160)
    for number in range(130):
        step(next(feed), chosen)
        if number % 40 == 39:
            evaluate(held_out)


def normalised() -> None:
    evaluate(loader_of(400))  # mean and deviation of the data
    plain()


def read_ahead() -> None:
    batches, chosen = list(loader_of(400)), optimizer()
    for _ in range(5):
        for batch in batches:
            step(batch, chosen)


def a_few_batches_for_ever() -> None:
    feed, chosen = iter(loader_of(400)), optimizer()
    batches = [next(feed) for _ in range(10)]
    for _ in range(80):
        for batch in batches:
            step(batch, chosen)


def read_for_something_else() -> None:
    loader, chosen = loader_of(400), optimizer()
    for epoch in range(4):
        for batch in loader:
            step(batch, chosen)
        if epoch % 2 == 0:
            evaluate(loader)


AGREE: tuple[Callable[[], None], ...] = (
    plain,
    validated,
    accumulated,
    warmed_up,
    two_networks,
    several_steps,
    scaled,
    endless,
    normalised,
    read_for_something_else,
)
DISAGREE = (read_ahead, a_few_batches_for_ever)


if __name__ == "__main__":
    import_all_of_torch()
    pids = {program.__name__: in_a_child(program) for program in (*AGREE, *DISAGREE)}
    ended_well(*pids.values())
    print(json.dumps(pids))
