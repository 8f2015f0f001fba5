"""Loaders of frameworks' shapes, moved with results that are the user's bit for bit."""

# ruff: noqa: D101, D103 - written as jobs are, each named by what it does

import itertools
import random
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    Sampler,
    get_worker_info,
)

from tests.probe.loader_frame import Numbers, flat, scenario


def trained(loader: Any, epochs: int = 3, seed: int = 7, most: int = 1000) -> list[Any]:
    """Batches, and what the training itself draws after each: dropout, say."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    out: list[Any] = []
    for _ in range(epochs):
        out.extend(
            [batch.tolist(), float(torch.rand(())), random.random(), np.random.rand()]
            for batch in itertools.islice(iter(loader), most)
        )
    return out


@scenario("lifted")
def subclass_with_its_own_iteration() -> Any:
    class Twice(DataLoader[Any]):
        def __iter__(self) -> Any:
            for batch in super().__iter__():
                yield batch * 2

        def __len__(self) -> int:
            return 7

    return trained(Twice(Numbers(), batch_size=4))


@scenario("lifted")
def sampler_that_made_its_list() -> Any:
    class Reversed(Sampler[int]):
        def __init__(self) -> None:
            pass  # torch 1.13's wants an argument

        def __iter__(self) -> Iterator[int]:
            return iter([int(torch.randint(96, ())) for _ in range(96)])

        def __len__(self) -> int:
            return 96

    return trained(DataLoader(Numbers(), batch_size=4, sampler=Reversed(), drop_last=True))


class Repeat:
    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Any:
        while True:
            yield from iter(self.sampler)


class MultiEpochs(DataLoader[Any]):
    """As timm and Ultralytics have it: one iterator for all epochs."""

    repeat = Repeat

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._DataLoader__initialized = False
        self.batch_sampler: Any = self.repeat(self.batch_sampler)
        self._DataLoader__initialized = True
        self.iterator = super().__iter__()

    def __len__(self) -> int:
        return len(self.batch_sampler.sampler)

    def __iter__(self) -> Any:
        for _ in range(len(self)):
            yield next(self.iterator)


@scenario("lifted")
def one_iterator_for_all_epochs() -> Any:
    torch.manual_seed(7)
    return trained(MultiEpochs(Numbers(length=102), batch_size=4, shuffle=True))


@scenario("lifted")
def one_iterator_and_a_worker() -> Any:
    torch.manual_seed(7)
    loader = MultiEpochs(Numbers(length=102), batch_size=4, shuffle=True, num_workers=1)
    return trained(loader)


@scenario("lifted")
def one_iterator_that_counts_its_epochs() -> Any:
    """Timm's newer one, with a sampler that shuffles by the epoch that it is told."""

    class _RepeatSampler(Repeat):
        def __iter__(self) -> Any:
            inner, epoch = self.sampler.sampler, 0
            while True:
                inner.set_epoch(epoch)
                epoch += 1
                yield from iter(self.sampler)

    class Loader(MultiEpochs):
        repeat = _RepeatSampler

    _RepeatSampler.__module__ = "timm.data.loader"
    sys.modules["timm.data.loader"] = types.ModuleType("timm.data.loader")
    torch.manual_seed(7)
    sampler: DistributedSampler[Any] = DistributedSampler(Numbers(length=202), 2, 0)
    seen = trained(Loader(Numbers(length=202), batch_size=4, sampler=sampler))
    del sys.modules["timm.data.loader"]
    return seen


@scenario("lifted")
def sampler_that_notes_its_end() -> Any:
    """accelerate's; what the training reads of it is as it would be."""

    class SeedableRandomSampler(RandomSampler):
        epoch = 0

        def __iter__(self) -> Any:
            self.generator = torch.Generator().manual_seed(self.epoch + 42)
            yield from super().__iter__()
            self.epoch += 1

    SeedableRandomSampler.__module__ = "accelerate.data_loader"
    sys.modules["accelerate.data_loader"] = types.ModuleType("accelerate.data_loader")
    sampler = SeedableRandomSampler(Numbers())
    loader = DataLoader(Numbers(), batch_size=4, sampler=sampler)
    seen = [[batch.tolist(), sampler.epoch] for _ in range(3) for batch in loader]
    del sys.modules["accelerate.data_loader"]
    return seen


@scenario("lifted")
def own_generator_left_before_the_end() -> Any:
    generator = torch.Generator().manual_seed(5)
    sampler = RandomSampler(Numbers(), generator=generator)
    loader = DataLoader(Numbers(), batch_sampler=BatchSampler(sampler, 4, drop_last=False))
    return trained(loader, most=23)


# -- pinned seeds and workers of the user's ---------------------------------------------------


@scenario("lifted")
def one_worker_and_no_draws() -> Any:
    return trained(DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=1))


@scenario("lifted")
def two_that_stay_and_no_draws() -> Any:
    loader = DataLoader(
        Numbers(), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True
    )
    return trained(loader)


def says(index: int) -> Any:
    """What a dataset can read of its worker without drawing."""
    info: Any = get_worker_info()
    seen = [info.id, info.num_workers, info.seed % 1000, torch.initial_seed() % 1000]
    return torch.tensor([index, *seen])


@scenario("lifted")
def samples_tell_their_worker() -> Any:
    return trained(DataLoader(Numbers(says), batch_size=4, shuffle=True, num_workers=2))


def reseeds(worker: int) -> None:
    random.seed(worker)
    np.random.seed(torch.initial_seed() % 2**32)


def draws_at(places: set[int]) -> Any:
    """Some items are augmented, with each kind of random number."""

    def make(index: int) -> Any:
        drawn = random.random() + np.random.rand() + float(torch.rand(())) if index in places else 0
        return torch.tensor(index + drawn, dtype=torch.float64)

    return make


def augmented(places: set[int], workers: int, **options: Any) -> Any:
    data = Numbers(draws_at(places), length=200)
    return trained(DataLoader(data, batch_size=4, num_workers=workers, **options))


@scenario("lifted")
def draws_long_after_the_start() -> Any:
    return augmented({101, 103, 150, 151, 152, 199}, 2)


@scenario("lifted")
def draws_after_the_start_with_workers_that_stay() -> Any:
    return augmented({60, 61, 100, 199}, 2, persistent_workers=True, worker_init_fn=reseeds)


@scenario("lifted")
def left_early_with_draws_under_way() -> Any:
    """The items are in batches that nobody gets in the first epoch, and in some of the second."""
    data = Numbers(draws_at({88, 186}), length=200)
    loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=2, persistent_workers=True)
    return trained(loader, epochs=3, most=23)


@scenario("lifted")
def draws_in_its_last_batch() -> Any:
    return augmented({199}, 1)


@scenario("lifted")
def fails_after_it_drew() -> Any:
    """An error of the user's own, beside a batch that draws."""
    inner = draws_at({60, 90})

    def make(index: int) -> Any:
        if index == 66:
            raise KeyError("no label")
        return inner(index)

    torch.manual_seed(7)
    iterator = iter(DataLoader(Numbers(make), batch_size=4, num_workers=2))
    seen: list[Any] = []
    while True:
        try:
            seen.append(next(iterator).tolist())
        except KeyError:
            seen.append("no label")
        except StopIteration:
            return seen


@scenario("kept")
def draws_from_the_start() -> Any:
    return augmented(set(range(200)), 2)


@scenario("kept")
def draws_in_one_worker_only() -> Any:
    return augmented(set(range(4, 8)), 2)


@scenario("kept")
def generator_of_the_datasets_own() -> Any:
    class Noisy(Numbers):
        def __init__(self) -> None:
            super().__init__()
            self.rng = np.random.default_rng(5)

        def __getitem__(self, index: int) -> Any:
            return torch.tensor(index + self.rng.random())

    return trained(DataLoader(Noisy(), batch_size=4, num_workers=2))


@scenario("kept")
def workers_with_a_share_each() -> Any:
    class Sharded(Numbers):
        share = -1

        def __getitem__(self, index: int) -> Any:
            return torch.tensor([index, self.share])

    def take(worker: int) -> None:
        info: Any = get_worker_info()
        info.dataset.share = worker

    return trained(DataLoader(Sharded(), batch_size=4, num_workers=2, worker_init_fn=take))


@scenario("kept")
def read_by_a_thread_of_its_own() -> Any:
    """MONAI's loader for transforms on a GPU, prefetch_generator's."""
    import queue
    import threading

    class Threaded(DataLoader[Any]):
        def __iter__(self) -> Any:
            box: queue.Queue[Any] = queue.Queue(2)
            inner = super().__iter__()

            def read() -> None:
                for batch in inner:
                    box.put(batch)
                box.put(None)

            threading.Thread(target=read, daemon=True).start()
            return iter(box.get, None)

    return flat(Threaded(Numbers(), batch_size=4))
