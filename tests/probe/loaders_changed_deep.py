"""Loaders without workers, whose data the loop changes out of an easy look's reach."""

# ruff: noqa: D103 - written as jobs are, each named by what it does

import collections
import multiprocessing
import os
import signal
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, SubsetRandomSampler

from tests.probe.loader_frame import LATE, Numbers, read, scenario


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


@scenario("changed")
def size_of_late_batches() -> Any:
    """Workers have drawn batches of the old size by then."""
    torch.manual_seed(1 << 40)
    loader = DataLoader(Numbers(length=250), batch_size=4, shuffle=True)
    seen = []
    for number, batch in enumerate(loader):
        seen.append(batch.tolist())
        loader.batch_sampler.batch_size = 4 + max(0, number - LATE) // 3  # type: ignore[union-attr]
    return seen


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
