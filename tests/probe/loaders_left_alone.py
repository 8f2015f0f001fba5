"""Loaders that are not understood, and keep their own setting."""

# ruff: noqa: D101, D103 - written as jobs are, each named by what it does

import multiprocessing
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    SequentialSampler,
)

from tests.probe.loader_frame import Numbers, flat, scenario


@scenario("alone")
def keeps_state() -> Any:
    cache: dict[int, Any] = {}

    def make(index: int) -> Any:
        cache[index] = cache.get(index, 0) + 1
        return torch.tensor(index)

    flat(DataLoader(Numbers(make), batch_size=4), 2)
    return cache[50]


@scenario("alone")
def open_file() -> Any:
    class Open(Dataset[Any]):
        def __init__(self, file: Any) -> None:
            self.file = file

        def __len__(self) -> int:
            return 96

        def __getitem__(self, index: int) -> Any:
            self.file.seek(index)
            return torch.tensor(self.file.read(1)[0])

    with tempfile.TemporaryFile() as file:
        file.write(bytes(range(96)))
        return flat(DataLoader(Open(file), batch_size=4), 2)


@scenario("alone")
def own_generator() -> Any:
    class Noisy(Numbers):
        def __init__(self) -> None:
            super().__init__()
            self.rng = np.random.default_rng(5)

        def __getitem__(self, index: int) -> Any:
            return torch.tensor(int(self.rng.integers(1 << 30)))

    return flat(DataLoader(Noisy(), batch_size=4), 2)


@scenario("alone")
def batches_whose_size_is_asked_for() -> Any:
    """Torch's own `__iter__` asks a property of the subclass, which looks at the training."""
    sizes = [4]

    class Asked(BatchSampler):
        def __init__(self) -> None:
            self.sampler, self.drop_last = SequentialSampler(range(96)), False

        @property
        def batch_size(self) -> int:  # type: ignore[override]  # as programs have it
            return sizes[0]

    seen = []
    for batch in DataLoader(Numbers(), batch_sampler=Asked()):
        seen.append(batch.tolist())
        sizes[0] = 4 + len(seen) % 3
    return seen


@scenario("alone")
def batches_that_the_loop_makes() -> Any:
    """Given one by one from a list, which the training adds to."""
    hard = [list(range(n, n + 4)) for n in range(0, 96, 4)]

    class Hard(Sampler[Any]):
        def __init__(self) -> None:
            pass  # torch 1.13's wants an argument

        def __iter__(self) -> Any:
            yield from hard

        def __len__(self) -> int:
            return len(hard)

    seen = []
    for batch in DataLoader(Numbers(), batch_sampler=Hard()):
        seen.append(batch.tolist())
        if len(seen) in (7, 24):
            hard.append([0, len(seen), 2, 3])
        hard[-1] = [len(seen)] * 4
    return seen


@scenario("alone")
def batches_with_a_draw_between() -> Any:
    class Drawn(Sampler[Any]):
        def __init__(self) -> None:
            pass  # torch 1.13's wants an argument

        def __iter__(self) -> Any:
            for first in list(range(0, 96, 4)):
                yield [first, int(torch.randint(96, ()))]

        def __len__(self) -> int:
            return 24

    torch.manual_seed((1 << 40) + 3)  # as nobody chooses one
    batches = DataLoader(Numbers(), batch_sampler=Drawn())
    return [[*batch.tolist(), float(torch.rand(()))] for batch in batches]


@scenario("alone")
def batches_of_another_generator() -> Any:
    class Handed(Sampler[Any]):
        def __init__(self) -> None:
            pass  # torch 1.13's wants an argument

        def made(self) -> Any:
            return zip(range(0, 96, 2), range(1, 96, 2), strict=True)

        def __iter__(self) -> Any:
            yield from (list(pair) for pair in self.made())

        def __len__(self) -> int:
            return 48

    return flat(DataLoader(Numbers(), batch_sampler=Handed()))


@scenario("alone")
def arrows_open_file() -> Any:
    import pyarrow as pa

    class Rows(Numbers):
        def __init__(self) -> None:
            super().__init__()
            self.file = pa.BufferReader(bytes(range(96)))

        def __getitem__(self, index: int) -> Any:
            self.file.seek(index)
            return self.file.read(1)[0]

    return flat(DataLoader(Rows(), batch_size=4))


@scenario("alone")
def custom_sampler() -> Any:
    """It gives again what the training found hard: its list is not made yet."""
    order = list(range(95, -1, -1))

    class Feedback(Sampler[int]):
        def __init__(self) -> None:
            pass  # torch 1.13's wants an argument

        def __iter__(self) -> Iterator[int]:
            return iter(order)

        def __len__(self) -> int:
            return 96

    seen = []
    for number, batch in enumerate(DataLoader(Numbers(), batch_size=4, sampler=Feedback())):
        seen += batch.tolist()
        order[4 * number + 8 : 4 * number + 12] = [number] * len(order[4 * number + 8 :][:4])
    return seen


@scenario("alone")
def subclass_with_its_own_iteration() -> Any:
    class Backwards(DataLoader[Any]):
        @property
        def _index_sampler(self) -> Any:
            return list(super()._index_sampler)[::-1]

    return flat(Backwards(Numbers(), batch_size=4))


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(30))


@scenario("alone")
def iterable_without_workers() -> Any:
    return flat(DataLoader(Stream(), batch_size=4))


@scenario("alone")
def iterable_with_workers() -> Any:
    return [sorted(epoch) for epoch in flat(DataLoader(Stream(), batch_size=4, num_workers=2))]


@scenario("alone")
def few_batches() -> Any:
    return flat(DataLoader(Numbers(length=12), batch_size=4), 2)


@scenario("alone")
def spawned_workers() -> Any:
    multiprocessing.set_start_method("spawn", force=True)
    try:
        return flat(DataLoader(Numbers(), batch_size=4))
    finally:
        multiprocessing.set_start_method(None, force=True)


@scenario("alone")
def array_of_a_gigabyte() -> Any:
    """A look at all its pages would take far longer than its small batches."""
    array = np.zeros(1 << 30, dtype=np.uint8)
    return flat(DataLoader(Numbers(lambda index: torch.tensor(index + array[index])), batch_size=4))
