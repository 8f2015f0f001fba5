"""Trainings that pinned their seeds."""

# ruff: noqa: D103 - written as jobs are, each named by what it does

import random
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from tests.probe.loader_frame import Numbers, flat, scenario


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


def _with_generator(seed: int | None, **named: Any) -> Any:
    """Items that draw of torch's own stream, or of the worker's that the generator seeds."""
    generator = torch.Generator()
    if seed is not None:
        generator.manual_seed(seed)
    augmented = Numbers(lambda i: torch.rand(()) + i)
    return seeded(DataLoader(augmented, batch_size=4, shuffle=True, generator=generator, **named))


@scenario("seeded")
def augmented_beside_a_new_generator() -> Any:
    return _with_generator(None)


@scenario("seeded")
def augmented_beside_a_generator_that_torch_seeds() -> Any:
    torch.manual_seed(3)
    return _with_generator(int(torch.empty((), dtype=torch.int64).random_()))


@scenario("seeded")
def augmented_by_a_new_generator_in_a_worker() -> Any:
    return _with_generator(None, num_workers=1)


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


@scenario("seeded")
def caught_before_a_late_draw() -> Any:
    """The loop goes on after an error of one item; a batch long after it draws."""

    def make(index: int) -> Any:
        if index == 33:
            raise ValueError("no label")
        return torch.tensor(index + (random.random() if index == 60 else 0.0))

    torch.manual_seed(7)
    batches, seen = iter(DataLoader(Numbers(make), batch_size=4, num_workers=2)), []
    while True:
        try:
            seen.append(next(batches).tolist())
        except ValueError:
            seen.append([])
        except StopIteration:
            return seen


class Switched(Dataset[Any]):
    """Adds noise of a generator of its own once the loop asks for it."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.augment = False

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(index + (self.rng.random() if self.augment else 0.0))


def _switched_on_later(data: Any, **named: Any) -> Any:
    torch.manual_seed(7)
    loader = DataLoader(data, batch_size=4, **named)
    clean = flat(loader)
    data.augment = True
    return clean + flat(loader, 2)


@scenario("seeded")
def augmented_from_the_second_pass_on() -> Any:
    return _switched_on_later(Switched())


@scenario("seeded")
def augmented_from_the_second_pass_on_in_workers() -> Any:
    return _switched_on_later(Switched(), num_workers=2)


@scenario("seeded")
def transform_swapped_between_passes() -> Any:
    """The new one has a generator of its own."""
    rng, data = np.random.default_rng(0), Numbers()
    loader = DataLoader(data, batch_size=4)
    torch.manual_seed(7)
    clean = flat(loader)
    data.make = lambda i: torch.tensor(i + rng.random())
    return clean + flat(loader, 2)


@scenario("seeded")
def epoch_told_to_the_dataset() -> Any:
    """A number that changes before each pass costs a trial, and no workers."""
    data, seen = Switched(), []
    loader: Any = DataLoader(data, batch_size=4)
    torch.manual_seed(7)
    for epoch in range(3):
        data.epoch = epoch  # type: ignore[attr-defined]
        seen += flat(loader)
    return seen
