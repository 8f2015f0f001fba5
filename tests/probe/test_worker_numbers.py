"""A `worker_init_fn` that goes by its worker's number, and those that do not."""

import functools
import os
from typing import Any

import numpy as np
import pytest
import torch

from slurm_ext.probe.inspection.worker_numbers import named_by

CORES = [{0}, {1}]


def pins(number: int) -> None:
    """Have a core for each."""
    os.sched_setaffinity(0, CORES[number])


def pins_later(other: int, number: int) -> Any:
    """Read the number in a function of its own."""
    return lambda: CORES[number], other


def pins_two(other: int, number: int) -> Any:
    """Read two at once."""
    return (other, number)


def shares(number: int) -> None:
    """Drop the number."""
    del number
    torch.set_num_threads(1)


def seeds(number: int) -> None:
    """Seed by torch's seed and the number."""
    np.random.seed((torch.initial_seed() + number) % 2**32)


class Pool:
    """Goes by the number where it is called, and in a method."""

    def __call__(self, number: int) -> Any:
        """Have a core for each."""
        return CORES[number]

    def method(self, number: int) -> Any:
        """Have a core for each."""
        return CORES[number]


@pytest.mark.parametrize(
    "init",
    [
        pins,
        functools.partial(pins_later, 3),
        functools.partial(pins_two, 3),
        lambda *numbers: CORES[numbers[0]],
        Pool(),
        Pool().method,
        os.nice,
    ],
)
def test_a_number_that_is_read_ties_a_worker_to_it(init: Any) -> None:
    """It may name a core, a port or a file, whatever is called and wherever it reads it."""
    assert named_by(init)


@pytest.mark.parametrize("init", [None, shares, functools.partial(shares), seeds])
def test_a_number_that_is_not_read_or_makes_a_seed_ties_nothing(init: Any) -> None:
    """Such a loader may have other workers."""
    assert not named_by(init)
