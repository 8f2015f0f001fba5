"""Loaders that have workers, forked or spawned, and get others."""

# ruff: noqa: D103, PTH108, PTH123, PTH118, PTH208, PTH105 - written as jobs are, each named by what it does

import itertools
import os
import tempfile
import time
import warnings
from typing import Any

import torch
from torch.utils.data import DataLoader, get_worker_info

from tests.probe.loader_frame import Numbers, flat, scenario


@scenario("gated")
def one_worker_shuffled() -> Any:
    loader = DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=1)
    kind = type(iter(loader)).__name__
    return [kind, loader.num_workers, [sorted(epoch) for epoch in flat(loader, 2)]]


@scenario("gated")
def init_function_timeout_and_prefetch() -> Any:
    """Every worker is initialised once; never more is drawn than may be."""
    folder = tempfile.mkdtemp()

    def init(worker: int) -> None:
        del worker
        open(os.path.join(folder, str(os.getpid())), "x").close()

    loader = DataLoader(
        Numbers(), batch_size=4, num_workers=2, worker_init_fn=init, timeout=30, prefetch_factor=3
    )
    iterator: Any = iter(loader)
    seen, windows = [], []
    for batch in iterator:
        seen += batch.tolist()
        windows.append(iterator._send_idx - iterator._rcvd_idx)
    return [seen, max(windows) <= 3 * iterator._num_workers, len(os.listdir(folder))]


@scenario("gated")
def init_function_that_goes_by_its_number() -> Any:
    """Each worker makes a file of its own; a core or a port would be named alike."""
    folder = tempfile.mkdtemp()

    def init(worker: int) -> None:
        open(os.path.join(folder, "ab"[worker]), "x").close()

    loader = DataLoader(Numbers(), batch_size=4, num_workers=2, worker_init_fn=init)
    return [flat(loader), sorted(os.listdir(folder))]


class Handles(Numbers):
    """It has a handle for each worker as written, and no more."""

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.handles: list[Any] = [None] * workers

    def __getitem__(self, index: int) -> Any:
        info: Any = get_worker_info()
        self.handles[info.id] = self.handles[info.id] or info.num_workers
        return torch.tensor([index, self.handles[info.id]])


@scenario("gated")
def handle_for_each_worker() -> Any:
    return flat(DataLoader(Handles(2), batch_size=4, num_workers=2), 2)


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


@scenario("gated")
def one_worker_that_counts() -> Any:
    class Counting(Numbers):
        made = 0

        def __getitem__(self, index: int) -> Any:
            self.made += 1
            return torch.tensor(self.made)

    return flat(DataLoader(Counting(), batch_size=4, num_workers=1), 2)


class Lines(Numbers):
    """Item i is the next line, whatever i is."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self.file = file

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(int(self.file.readline()))


@scenario("gated")
def one_worker_that_reads_on() -> Any:
    with tempfile.TemporaryFile("w+") as file:
        file.write("\n".join(map(str, range(9999))))
        file.seek(0)
        return flat(DataLoader(Lines(file), batch_size=4, num_workers=1))


@scenario("gated")
def one_worker_that_iterates() -> Any:
    numbers = itertools.count()
    return flat(DataLoader(Numbers(lambda _: torch.tensor(next(numbers))), 4, num_workers=1))


@scenario("gated")
def one_worker_that_augments() -> Any:
    """Its numbers differ in each run, and between its workers."""
    loader = DataLoader(Numbers(lambda _: torch.rand(2)), batch_size=4, num_workers=1)
    return len({tuple(row) for batch in loader for row in batch.tolist()})


@scenario("spawned")
def spawned_with_a_handle_each() -> Any:
    data = Handles(2)
    return flat(DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context="spawn"))


@scenario("spawned")
def spawned_by_the_user() -> Any:
    loader = DataLoader(
        Numbers(length=32), batch_size=4, num_workers=1, multiprocessing_context="spawn"
    )
    return flat(loader)
