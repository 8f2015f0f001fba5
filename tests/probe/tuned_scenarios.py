"""Trainings that tune themselves in their first run; run under the probe by test_probe_tuning.py.

Usage: python -m tests.probe.tuned_scenarios NAME... All work is waiting, so that a busy machine
changes little; a search is given the time that it needs there.
"""

# ruff: noqa: D101, D103 - written as jobs are, each named by what it does

import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from tests.probe.in_children import each_in_a_child

GATE = Path(os.environ["DLQUEUE_RUN_DIR"], "workers")


class Waiting(Dataset[Any]):
    """Item i is i, after a wait."""

    def __init__(self, length: int, seconds: float, draws: bool = False) -> None:
        self.length, self.seconds, self.draws = length, seconds, draws

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if self.seconds:
            time.sleep(self.seconds)  # and wakes up late on a busy machine, however short it is
        if self.draws:
            random.random()
        return torch.tensor(index)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        for index in range(100):
            time.sleep(0.005)
            yield torch.tensor(index)


def train(
    loader: Any, step_s: float, epochs: int = 1, ends: Callable[[], bool] = lambda: False
) -> dict[str, Any]:
    """Whether each epoch was in order, and how many workers lived at most."""
    right, most = True, 0
    for _ in range(epochs):
        items = []
        for batch in loader:
            time.sleep(step_s)
            items += batch.tolist()
            most = max(most, len(multiprocessing.active_children()))
            if ends():
                break
        right = right and items == list(range(len(items)))
    return {"in_order": right, "most": most}


def waits_at_home() -> Any:
    return train(DataLoader(Waiting(2000, 0.01), batch_size=8), 0.02)


def waits_with_one() -> Any:
    return train(DataLoader(Waiting(2000, 0.01), batch_size=8, num_workers=1), 0.02)


def short_epochs() -> Any:
    return train(DataLoader(Waiting(80, 0.01), batch_size=8), 0.02, epochs=12)


def does_not_wait() -> Any:
    return train(DataLoader(Waiting(150, 0.0), batch_size=1), 0.04)


def settled() -> bool:
    """Whether the summary, which the probe writes every few seconds, names a count."""
    summary = GATE.with_name(f"summary-{os.getpid()}.json")
    if not summary.exists():
        return False
    return json.loads(summary.read_text())["loaders"][0]["tuned"]["workers"] is not None


def has_too_many() -> Any:
    loader = DataLoader(Waiting(2000, 0.02), batch_size=1, num_workers=8)
    return train(loader, 0.08, ends=settled)


def stream() -> Any:
    return train(DataLoader(Stream(), batch_size=4), 0.001)


def draws_with_a_seed() -> Any:
    torch.manual_seed(1)
    return train(DataLoader(Waiting(600, 0.005, draws=True), batch_size=4), 0.001)


def ruled_by_a_file() -> Any:
    GATE.write_text("2\n")
    return train(DataLoader(Waiting(1200, 0.01), batch_size=8), 0.01)


if __name__ == "__main__":
    each_in_a_child(globals(), sys.argv[1:])
