"""Trainings from several loaders or threads, and from streams whose batches are not full.

`python -m tests.probe.programs_in_turn` runs them in one process, in the order of PROGRAMS.
"""

# ruff: noqa: D101, D102, D103 - written as jobs are, each named by what it does

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from tests.probe.loader_frame import Numbers


def sample(_: int) -> Any:
    return torch.zeros(4)


class Training:
    def __init__(self) -> None:
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def step(self, batch: Any) -> None:
        self.optimizer.zero_grad()
        self.model(batch).sum().backward()
        self.optimizer.step()


class Shards(IterableDataset[Any]):
    """Each worker's shard has 5 samples."""

    def __iter__(self) -> Iterator[Any]:
        assert get_worker_info() is not None
        yield from (torch.zeros(4) for _ in range(5))


def short_batches() -> None:
    loader, training = DataLoader(Shards(), batch_size=4, num_workers=2), Training()
    for _ in range(2):
        for batch in loader:
            training.step(batch)


def flattened() -> None:
    """A collate function that makes one long row of each batch."""
    loader: Any = DataLoader(Shards(), batch_size=4, num_workers=2, collate_fn=torch.stack)
    loader.collate_fn = lambda rows: torch.cat(rows).reshape(1, -1, 4)
    training = Training()
    for batch in loader:
        training.step(batch)


def tasks_in_turn() -> None:
    training = Training()
    feeds = [iter(DataLoader(Numbers(sample, n), batch_size=4)) for n in (40, 41)]
    for number in range(20):
        training.step(next(feeds[number % 2]))


def zipped() -> None:
    training = Training()
    loaders = [DataLoader(Numbers(sample, n), batch_size=4) for n in (42, 43)]
    for batch, _ in zip(*loaders, strict=True):
        training.step(batch)


def two_threads() -> None:
    """Each thread's steps follow the other's."""
    turn = threading.Barrier(2)

    def train(length: int) -> None:
        training = Training()
        for batch in DataLoader(Numbers(sample, length), batch_size=4):
            turn.wait()
            training.step(batch)

    threads = [threading.Thread(target=train, args=(length,)) for length in (45, 46)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read_ahead() -> None:
    batches: queue.Queue[Any] = queue.Queue(2)

    def read() -> None:
        for batch in DataLoader(Numbers(sample, 48), batch_size=4):
            batches.put(batch)
        batches.put(None)

    threading.Thread(target=read).start()
    training = Training()
    while (batch := batches.get()) is not None:
        training.step(batch)


PROGRAMS: tuple[Callable[[], None], ...] = (
    short_batches,
    flattened,
    tasks_in_turn,
    zipped,
    two_threads,
    read_ahead,
)

if __name__ == "__main__":
    for program in PROGRAMS:
        program()
