"""Loaders without workers: opened, and brought home where they cannot live in workers."""

# ruff: noqa: D103 - written as jobs are, each named by what it does

import multiprocessing
import os
import pickle
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from tests.probe.loader_frame import Numbers, flat, in_worker, scenario


@scenario("open")
def shuffled() -> Any:
    loader = DataLoader(Numbers(), batch_size=4, shuffle=True)
    kind = type(iter(loader)).__name__
    epochs = flat(loader, 3)
    return [kind, loader.num_workers, [sorted(epoch) for epoch in epochs]]


@scenario("open")
def in_order_with_a_short_last_batch() -> Any:
    return [[b.tolist() for b in DataLoader(Numbers(length=101), batch_size=7)]]


@scenario("open")
def drop_last() -> Any:
    return flat(DataLoader(Numbers(length=101), batch_size=7, drop_last=True))


@scenario("open")
def without_batches() -> Any:
    return [int(i) for i in DataLoader(Numbers(length=40), batch_size=None)]


@scenario("open")
def custom_collate_and_batch_sampler() -> Any:
    sampler = BatchSampler(SequentialSampler(range(50)), 3, drop_last=False)
    loader = DataLoader(
        Numbers(length=50), batch_sampler=sampler, collate_fn=lambda items: [int(i) for i in items]
    )
    return list(loader)


@scenario("open")
def subclass_that_only_constructs() -> Any:
    class Mine(DataLoader[Any]):
        def __init__(self) -> None:
            super().__init__(Numbers(), batch_size=4)

    return flat(Mine())


@scenario("open")
def distributed_sampler() -> Any:
    data = Numbers()
    sampler: Any = DistributedSampler(data, num_replicas=2, rank=1, seed=3)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    epochs = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        epochs += flat(loader)
    return epochs


@scenario("open")
def dataset_changed_between_epochs() -> Any:
    data = Numbers()
    loader = DataLoader(data, batch_size=4)
    first = flat(loader)
    data.make = lambda i: torch.tensor(i + 1000)
    return first + flat(loader)


@scenario("open")
def left_early() -> Any:
    loader = DataLoader(Numbers(), batch_size=4)
    for _ in range(3):
        for count, _batch in enumerate(loader):
            if count == 5:
                break
    return len(multiprocessing.active_children())


@scenario("open")
def pickled_loader() -> Any:
    loader = DataLoader(Numbers(), batch_size=4)
    flat(loader)
    return flat(pickle.loads(pickle.dumps(loader)))


@scenario("open")
def two_at_once() -> Any:
    """Zipped: neither takes workers that the other holds."""
    pairs, most = [], 0
    for a, b in zip(
        DataLoader(Numbers(), batch_size=4), DataLoader(Numbers(), batch_size=6), strict=False
    ):
        pairs.append([a.tolist(), b.tolist()])
        most = max(most, len(multiprocessing.active_children()))
    return [pairs, most <= 4]


@scenario("open")
def counted_and_kept() -> Any:
    """As Lightning reads: a look at first, then batches by number, the former iterator alive."""
    loader = DataLoader(Numbers(), batch_size=4)
    kept = iter(loader)
    seen = [next(kept).tolist()]
    for _ in range(3):
        feed = iter(loader)
        seen += [next(feed).tolist() for _ in range(len(loader))]
        kept = feed
    return seen, next(kept, None)


@scenario("open")
def counted_and_forked() -> Any:
    """A fork of the program goes on with a pass that had begun; the one that is over is not its."""
    loader, other = (DataLoader(Numbers(), batch_size=4) for _ in range(2))
    kept, begun = iter(loader), iter(other)
    seen = [next(kept).tolist() for _ in range(len(loader))]
    workers = multiprocessing.active_children()
    child = os.fork()
    if not child:
        os._exit([batch.tolist() for batch in begun] != seen)
    status = os.waitpid(child, 0)[1]
    return seen, status, [worker.is_alive() for worker in workers].count(False)


# -- what cannot live in workers -------------------------------------------------------------


def dies(index: int) -> Any:
    if in_worker() and index == 50:
        os._exit(9)
    return torch.tensor(index)


def raises_in_workers(index: int) -> Any:
    if in_worker() and index == 50:
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
    return torch.tensor(index)


@scenario("fallback")
def worker_dies() -> Any:
    return flat(DataLoader(Numbers(dies), batch_size=4), 2)


@scenario("fallback")
def worker_raises() -> Any:
    return flat(DataLoader(Numbers(raises_in_workers), batch_size=4), 2)


@scenario("fallback")
def batch_that_cannot_travel() -> Any:
    loader = DataLoader(Numbers(), batch_size=4, collate_fn=lambda items: [lambda: items])
    return [[int(i) for i in batch[0]()] for batch in loader]


@scenario("fallback")
def batch_with_gradients() -> Any:
    weight = torch.ones((), requires_grad=True)
    loader = DataLoader(Numbers(lambda i: weight * i), batch_size=4)
    return flat(loader)


@scenario("fallback")
def error_of_the_users_own() -> Any:
    def make(index: int) -> Any:
        if index == 50:
            raise KeyError("no label")
        return torch.tensor(index)

    seen: list[int] = []
    iterator = iter(DataLoader(Numbers(make), batch_size=4))
    while True:
        try:
            seen += next(iterator).tolist()
        except StopIteration:
            return seen
        except KeyError as error:
            seen.append(-1)
            if str(error) != "'no label'" or error.__context__ is not None:
                return str(error)
