"""A training that counts its own samples, in each of the ways that people feed one.

`python -m tests.probe.programs_counted` prints the count and the seconds of each, in the order of
its loaders; the probe's summary must agree.
"""

# ruff: noqa: D103, T201 - written as jobs are, each named by what it does

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler
from torch.utils.data.dataloader import (
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from tests.probe.loader_frame import Numbers

EPOCHS = 3
START_S = 0.1
MODEL = torch.nn.Linear(4, 1)
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), lr=0.01)


def sample(_: int) -> Any:
    return torch.zeros(4)


def step(batch: Any) -> int:
    OPTIMIZER.zero_grad()
    MODEL(batch.reshape(-1, 4)).sum().backward()
    OPTIMIZER.step()
    time.sleep(0.005)
    return len(batch)


def validate(loader: Iterable[Any]) -> None:
    with torch.no_grad():
        for batch in loader:
            MODEL(batch)
            time.sleep(0.02)


class Repeated:
    """A batch sampler without an end, as timm's loader of several epochs has it."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.sampler


class LastingLoader(DataLoader[Any]):
    """One pass through all epochs: the workers are started once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.__dict__["batch_sampler"] = Repeated(self.batch_sampler)
        self.lasting = super().__iter__()

    def __iter__(self) -> Any:
        for _ in range(-(-len(self.dataset) // 16)):  # type: ignore[arg-type] # it has a length
            yield next(self.lasting)


class Whole(IterableDataset[Any]):
    """Hands out whole batches with their labels."""

    def __iter__(self) -> Iterator[Any]:
        for _ in range(10):
            yield torch.zeros(17, 4), torch.zeros(17)


class Alone(Whole):
    """Hands out one sample at a time."""

    def __iter__(self) -> Iterator[Any]:
        for _ in range(10):
            yield torch.zeros(3, 4), 1


def batches_of_the_dataset() -> int:
    sampler = BatchSampler(RandomSampler(range(100)), 16, drop_last=False)
    data = Numbers(lambda rows: torch.zeros(len(rows), 4), 100)  # type: ignore[arg-type] # a list
    loader: Any = DataLoader(data, batch_size=None, sampler=sampler)
    return sum(step(batch) for _ in range(EPOCHS) for batch in loader)


def iterable_of_batches() -> int:
    loader: Any = DataLoader(Whole(), batch_size=None)
    return sum(step(batch) for _ in range(EPOCHS) for batch, _ in loader)


def iterable_of_samples() -> int:
    loader: Any = DataLoader(Alone(), batch_size=None)
    return sum(step(one[None, :, :]) for one, _ in loader)


class ForeignLoader(IterableDataset[Any]):
    """Makes torch's own iterators of loaders that are not torch's, as fastai does."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.inner: DataLoader[Any] = DataLoader(self, batch_size=None)

    def __iter__(self) -> Iterator[Any]:
        yield from (torch.zeros(8, 4) for _ in range(self.count))

    def batches(self) -> Iterator[Any]:
        """One epoch."""
        yield from _SingleProcessDataLoaderIter(self.inner)


def another_library() -> int:
    loader, held_out = ForeignLoader(12), ForeignLoader(9)
    count = 0
    for _ in range(EPOCHS):
        count += sum(step(batch) for batch in loader.batches())
        validate(held_out.batches())
    return count


class OwnIterator(DataLoader[Any]):
    """Makes its iterators itself, as torchdata's StatefulDataLoader does."""

    def __iter__(self) -> Any:
        return _SingleProcessDataLoaderIter(self)


def own_iterator() -> int:
    loader = OwnIterator(Numbers(sample, 100), batch_size=16)
    return sum(step(batch) for _ in range(EPOCHS) for batch in loader)


class OwnLasting(DataLoader[Any]):
    """As it, with workers that last: it resets its iterator itself for each pass."""

    kept: Any = None

    def __iter__(self) -> Any:
        if self.kept is None:
            self.__dict__["kept"] = _MultiProcessingDataLoaderIter(self)
        else:
            self.kept._reset(self)
        return self.kept


def own_lasting() -> int:
    loader = OwnLasting(Numbers(sample, 100), batch_size=16, num_workers=1, persistent_workers=True)
    return sum(step(batch) for _ in range(EPOCHS) for batch in loader)


class SlowStart(_MultiProcessingDataLoaderIter):
    """Takes START_S, beside what torch takes, to start its workers."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        time.sleep(START_S)


class OwnWorkers(DataLoader[Any]):
    """As OwnIterator, with workers."""

    def __iter__(self) -> Any:
        return SlowStart(self)


def own_workers() -> int:
    loader = OwnWorkers(Numbers(sample, 100), batch_size=16, num_workers=1)
    return sum(step(batch) for _ in range(EPOCHS) for batch in loader)


def lasting() -> int:
    loader = LastingLoader(Numbers(sample, 100), batch_size=16)
    held_out = LastingLoader(Numbers(sample, 90), batch_size=16)
    count = 0
    for _ in range(EPOCHS):
        count += sum(step(batch) for batch in loader)
        validate(held_out)
    return count


def side_by_side() -> int:
    first = DataLoader(Numbers(sample, 110), batch_size=16)
    second = DataLoader(Numbers(sample, 111), batch_size=16)
    pairs = zip(first, second, strict=True)
    return sum(step(batch) for batch, _ in pairs)


class Cut(Dataset[Any]):
    """As TorchIO's Queue: samples of what a loader within the data set hands on."""

    def __init__(self) -> None:
        self.whole = iter(DataLoader(Numbers(sample, 112), batch_size=4))
        self.left: list[Any] = []

    def __len__(self) -> int:
        return 112

    def __getitem__(self, index: int) -> Any:
        self.left = self.left or list(next(self.whole))
        return self.left.pop()


def fed_by_another() -> int:
    return sum(step(batch) for batch in DataLoader(Cut(), batch_size=16))


PROGRAMS: tuple[Callable[[], int], ...] = (
    batches_of_the_dataset,
    iterable_of_batches,
    iterable_of_samples,
    another_library,
    lasting,
    side_by_side,
    own_iterator,
    fed_by_another,
    own_workers,
    own_lasting,
)


def main() -> None:
    counts = {}
    for program in PROGRAMS:
        began = time.perf_counter()
        counts[program.__name__] = program(), time.perf_counter() - began
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
