"""Trainings to whose running iterators workers are added; run under the probe by test_probe_growth.

Usage: python -m tests.probe.growth_scenarios NAME...
"""

# ruff: noqa: D103 - written as jobs are, each named by what it does

import importlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from tests.probe.in_children import each_in_a_child


class Makers(Dataset[Any]):
    """Item i is i, who made it, and whether its maker was set up first."""

    def __len__(self) -> int:
        return 300

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.001)
        return torch.tensor([index, os.getpid(), "BEGUN" in os.environ])


def _session() -> Any:
    return sys.modules["_dlqueue_probe.process"].ProbeState.session


def _directive() -> Any:
    """The request to this process, before its first pass."""
    process = sys.modules["_dlqueue_probe.process"]
    return process.session_of(torch.utils.data.dataloader).directive


def grown(loader: Any, begin: Callable[[], None] | None = None) -> tuple[list[list[int]], int]:
    """Every item of two passes, the first one with two workers more from its tenth batch on."""
    items, added = [], 0
    for epoch in range(2):
        iterator = iter(loader)
        for count, batch in enumerate(iterator):
            items += batch.tolist()
            if (epoch, count) == (0, 10):
                current = iterator.__dict__["_dlqueue"]
                added = _session().grow(current, 2, begin)
                current.gate.first = current.gate.asked = current.gate.limit
    return items, added


def _answer(items: list[list[int]], added: int) -> dict[str, Any]:
    order = [index for index, _, _ in items]
    first = items[:300]
    return {
        "in_order": order == [*range(300), *range(300)],
        "added": added,
        "makers": [len({maker for _, maker, _ in part}) for part in (first[:30], first[150:])],
        "begun": len({maker for _, maker, begun in first[150:] if begun}),
    }


def new_each_epoch() -> Any:
    return _answer(*grown(DataLoader(Makers(), batch_size=4, num_workers=1)))


def persistent() -> Any:
    loader: Any = DataLoader(Makers(), batch_size=4, num_workers=1, persistent_workers=True)
    answer = _answer(*grown(loader))
    return {**answer, "kept": len(loader._iterator._workers)}


def behind_none() -> Any:
    return _answer(*grown(DataLoader(Makers(), batch_size=4)))


def set_up_first() -> Any:
    loader = DataLoader(Makers(), batch_size=4, num_workers=1)
    return _answer(*grown(loader, lambda: os.environ.update(BEGUN="1")))


def spawned_ones_wait() -> Any:
    loader = DataLoader(Makers(), batch_size=4, num_workers=1, multiprocessing_context="spawn")
    return _answer(*grown(loader))


class Numbered(Makers):
    """Item i is i, who made it, and whether its maker has the only number that was written."""

    def __getitem__(self, index: int) -> Any:
        info: Any = get_worker_info()
        return torch.tensor([index, os.getpid(), (info.id, info.num_workers) == (0, 1)])


def numbered_as_written() -> Any:
    items, added = grown(DataLoader(Numbered(), batch_size=4, num_workers=1))
    return [added, sorted({as_written for _, _, as_written in items})]


def slow_to_start() -> Any:
    """Four workers are told to a loader with pinned seeds, and each fork takes too long."""
    torch.manual_seed(0)
    _directive().num_workers = 4
    growth: Any = importlib.import_module("_dlqueue_probe.workers.growth")
    growth._PATIENCE_S = 0.0  # one is started at a time
    loader: Any = DataLoader(Makers(), batch_size=4, num_workers=1)
    return _answer([item for batch in [*loader, *loader] for item in batch.tolist()], 0)


class Noisy(Makers):
    """Item i is i and what the loop set, as the worker knows it."""

    noise = 0

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.001)
        return torch.tensor([index, self.noise])


def _noises(loader: Any, late: int = 0) -> list[int]:
    """The noises of a pass whose loop sets another after each batch; `late` workers join it."""
    seen, iterator = set(), iter(loader)
    for step, batch in enumerate(iterator):
        seen |= {noise for _, noise in batch.tolist()}
        loader.dataset.noise = step + 1
        if late and step == 10:
            current = iterator.__dict__["_dlqueue"]
            _session().grow(current, late)
            current.gate.first = current.gate.asked = current.gate.limit
    return sorted(seen)


def changed_by_a_seeded_loop() -> Any:
    """Two more are told to a loader with pinned seeds, and start once two fetches were watched."""
    torch.manual_seed(0)
    _directive().num_workers = 4
    return _noises(DataLoader(Noisy(), batch_size=4, num_workers=2))


def changed_where_workers_are_lent() -> Any:
    _directive().borrows = True
    return _noises(DataLoader(Noisy(), batch_size=4, num_workers=1), late=2)


def changed_beside_a_settled_tuner() -> Any:
    """The tuner may wake within a later pass."""
    _directive().tunes = True
    loader: Any = DataLoader(Noisy(), batch_size=4, num_workers=1)
    list(loader)
    (meter,) = _session().meters.all
    meter.tuner.settled = True
    return _noises(loader, late=2)


if __name__ == "__main__":
    each_in_a_child(globals(), sys.argv[1:])
