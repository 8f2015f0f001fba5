"""Real DataLoaders as jobs use them; run with and without the probe by test_probe_loaders.py.

Usage: loader_scenarios.py GROUP. Prints one JSON object: scenario -> {"result", "row"}, where `row`
is the loader's row of the probe's summary (None without the probe).
"""

# ruff: noqa: D101, D103, PTH108, PTH123, PTH118, PTH208, PTH105, T201 - written as jobs are, each named by what it does

import contextlib
import json
import multiprocessing
import os
import pickle
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
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
    get_worker_info,
)
from torch.utils.data.distributed import DistributedSampler

GROUPS: dict[str, list[Callable[[], Any]]] = {}


def scenario(group: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def keep(function: Callable[[], Any]) -> Callable[[], Any]:
        GROUPS.setdefault(group, []).append(function)
        return function

    return keep


class Numbers(Dataset[Any]):
    """Item i is `make(i)`."""

    def __init__(self, make: Callable[[int], Any] = torch.tensor, length: int = 96) -> None:
        self.make = make
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


def flat(loader: Any, epochs: int = 1) -> list[list[int]]:
    return [[i for batch in loader for i in batch.tolist()] for _ in range(epochs)]


def in_worker() -> bool:
    return get_worker_info() is not None


# -- opened from 0 workers ------------------------------------------------------------------


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


# -- left alone ------------------------------------------------------------------------------


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
def custom_sampler() -> Any:
    class Feedback(Sampler[int]):
        def __init__(self) -> None:
            pass  # torch 1.13's wants an argument

        def __iter__(self) -> Iterator[int]:
            return iter(range(95, -1, -1))

        def __len__(self) -> int:
            return 96

    return flat(DataLoader(Numbers(), batch_size=4, sampler=Feedback()))


@scenario("alone")
def subclass_with_its_own_iteration() -> Any:
    class Twice(DataLoader[Any]):
        def __iter__(self) -> Any:
            for batch in super().__iter__():
                yield batch * 2

    return flat(Twice(Numbers(), batch_size=4))


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


# -- gated from N workers --------------------------------------------------------------------


@scenario("gated")
def one_worker_shuffled() -> Any:
    loader = DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=1)
    kind = type(iter(loader)).__name__
    return [kind, loader.num_workers, [sorted(epoch) for epoch in flat(loader, 2)]]


@scenario("gated")
def init_function_timeout_and_prefetch() -> Any:
    """Every worker is initialised once, with its own id; never more is drawn than may be."""
    folder = tempfile.mkdtemp()

    def init(worker: int) -> None:
        open(os.path.join(folder, str(worker)), "x").close()

    loader = DataLoader(
        Numbers(), batch_size=4, num_workers=2, worker_init_fn=init, timeout=30, prefetch_factor=3
    )
    iterator: Any = iter(loader)
    seen, windows = [], []
    for batch in iterator:
        seen += batch.tolist()
        windows.append(iterator._send_idx - iterator._rcvd_idx)
    return [seen, max(windows) <= 3 * iterator._num_workers, sorted(os.listdir(folder))]


@scenario("gated")
def persistent() -> Any:
    """The same processes serve every epoch."""
    loader = DataLoader(
        Numbers(lambda i: torch.tensor([i, os.getpid()])),
        batch_size=4,
        num_workers=1,
        persistent_workers=True,
    )
    epochs = [torch.cat(list(loader)) for _ in range(3)]
    pids = [set(epoch[:, 1].tolist()) for epoch in epochs]
    return [[epoch[:, 0].tolist() for epoch in epochs], len(set.union(*pids)) <= 4]


@scenario("gated")
def fewer_than_asked() -> Any:
    loader = DataLoader(
        Numbers(lambda i: torch.tensor([i, os.getpid()])), batch_size=2, num_workers=6
    )
    rows = torch.cat(list(loader))
    return [rows[:, 0].tolist(), len(set(rows[:, 1].tolist()))]


@scenario("gated")
def custom_sampler_with_workers() -> Any:
    sampler = list(range(95, -1, -1))
    return flat(DataLoader(Numbers(), batch_size=4, sampler=sampler, num_workers=1))


@scenario("gated")
def number_in_a_file() -> Any:
    """4 workers, then 1, then 3, within one epoch: which processes made the batches."""
    run_dir = os.environ.get("DLQUEUE_RUN_DIR")
    if run_dir is None:
        return None
    path = os.path.join(run_dir, "workers")

    def ask(count: str) -> None:
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(count)
        os.replace(path + ".new", path)

    def make(index: int) -> Any:
        time.sleep(0.002)
        return torch.tensor([index, os.getpid()])

    loader = DataLoader(Numbers(make, 600), batch_size=2, num_workers=1)
    rows, seen = [], []
    for count, batch in enumerate(loader):
        if count in (100, 200):
            ask({100: "1", 200: "3"}[count])
            time.sleep(0.25)  # the gate is looked at five times a second
        rows += batch[:, 0].tolist()
        seen += batch[:, 1].tolist()
    os.unlink(path)
    return [rows, len(set(seen[100:200])), len(set(seen[240:400])), len(set(seen[440:]))]


@scenario("gated")
def warnings_are_the_users_own() -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        quiet = DataLoader(Numbers(), batch_size=4, num_workers=1)
        none = DataLoader(Numbers(), batch_size=4)
        flat(quiet)
        flat(none)
        mine = len(caught)
        flat(DataLoader(Numbers(), batch_size=4, num_workers=(os.cpu_count() or 1) + 2))
    return [mine, [[str(w.message), w.filename, w.lineno] for w in caught]]


@scenario("spawned")
def spawned_by_the_user() -> Any:
    loader = DataLoader(
        Numbers(length=32), batch_size=4, num_workers=1, multiprocessing_context="spawn"
    )
    return flat(loader)


# -- pinned seeds ----------------------------------------------------------------------------


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


# -- measuring -------------------------------------------------------------------------------


@scenario("measure")
def slow_storage() -> Any:
    def make(index: int) -> Any:
        time.sleep(0.01)
        with open(__file__, "rb") as file:
            file.read(1000)
        return torch.tensor(index)

    return flat(DataLoader(Numbers(make, 64), batch_size=4, num_workers=2), 2)


@scenario("measure")
def busy_at_home() -> Any:
    def make(index: int) -> Any:
        return torch.tensor(sum(range(20000)) * 0 + index)

    seen = []
    for batch in DataLoader(Numbers(make, 100), batch_size=8):
        time.sleep(0.005)  # the step
        seen += batch.tolist()
    return seen


@scenario("measure")
def forked_child() -> Any:
    """A child that uses a DataLoader itself has its own summary."""
    flat(DataLoader(Numbers(), batch_size=4))
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            flat(DataLoader(Numbers(), batch_size=4))
            session = sys.modules["_dlqueue_probe.attach"]._Process.session
            session.write(True)
        os._exit(0)
    os.waitpid(pid, 0)
    return None


@scenario("killed")
def killed() -> Any:
    for _batch in DataLoader(Numbers(length=100000), batch_size=4):
        time.sleep(0.01)
        if _batch[0] > 480:
            os.kill(os.getpid(), 9)
    return None


def last_row(before: int) -> Any:
    attach = sys.modules.get("_dlqueue_probe.attach")
    session = attach._Process.session if attach else None
    return [meter.row() for meter in session.meters[before:]] if session else None


def main() -> None:
    results = {}
    for function in GROUPS[sys.argv[1]]:
        attach = sys.modules.get("_dlqueue_probe.attach")
        session = attach._Process.session if attach else None
        before = len(session.meters) if session else 0
        if session:
            session._of.clear()  # alike as they look, these loaders are not one made anew
        results[function.__name__] = {"result": function(), "rows": last_row(before)}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
