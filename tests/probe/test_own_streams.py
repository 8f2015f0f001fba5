"""A worker's random numbers that the program pins, by its `worker_init_fn` or its dataset."""

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from slurm_ext.probe.inspection import own_streams
from tests.probe.loader_frame import Numbers


def plain(number: int, base: int = 0) -> None:
    """Seed by the worker's number."""
    random.seed(base + number)


def torchs(number: int) -> None:
    """Seed by torch's seed, which differs in each run."""
    np.random.seed(torch.initial_seed() % 2**32 + number)


def threads(number: int) -> None:
    """Seed nothing."""
    del number
    torch.set_num_threads(1)


class Init:
    """Seeds in a method, or where it is called."""

    def method(self, number: int) -> None:
        """Seed by the worker's number."""
        np.random.seed(number)

    def __call__(self, number: int) -> None:
        """Seed by the worker's number."""
        torch.manual_seed(number)


def of(init: Any, dataset: Any = None) -> bool:
    """The answer for a loader with this `worker_init_fn`."""
    dataset = Numbers() if dataset is None else dataset
    return own_streams.of(DataLoader(dataset, worker_init_fn=init))


class Derived(Init):
    """Seeds where its base is called."""


SEEDING = [
    plain,
    functools.partial(plain, base=7),
    functools.partial(functools.partial(plain), base=7),
    Init().method,
    functools.partial(Init().method),
    Init(),
    Derived(),
    np.random.seed,
    random.seed,
]


@pytest.mark.parametrize("init", SEEDING)
def test_seeds_are_seen_in_whatever_is_called(init: Callable[[int], Any]) -> None:
    """A partial, a method and an object that is called pin numbers as a function does."""
    assert of(init)


@pytest.mark.parametrize("init", [torchs, functools.partial(torchs), threads, None])
def test_numbers_of_torchs_seed_are_not_the_programs(init: Any) -> None:
    """A worker that takes torch's seed, or none, has other numbers in each run."""
    assert not of(init)


@pytest.mark.parametrize("init", [threads, functools.partial(threads), None])
def test_a_generator_of_the_dataset_is_seen_behind_any_init(init: Any) -> None:
    """A `worker_init_fn` that seeds nothing leaves the dataset's generator what it is."""
    generator = np.random.default_rng(0)
    assert of(init, Numbers(lambda index: torch.tensor(index + generator.random())))
