"""Loaders that have workers, forked or spawned, and get others."""

# ruff: noqa: D103, PTH108, PTH123, PTH118, PTH208, PTH105 - written as jobs are, each named by what it does

import os
import tempfile
import time
import warnings
from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.probe.loader_frame import Numbers, flat, scenario


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
