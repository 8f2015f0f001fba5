"""Trainings that handle SIGTERM, and end while workers hang in a fetch.

`python -m tests.probe.workers_hanging NAME FILE` notes in FILE the process ids of the workers.
"""

# ruff: noqa: D101, D103 - written as jobs are, each named by what it does

import multiprocessing
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data._utils import MP_STATUS_CHECK_INTERVAL

LONG_S = 1e6


class Hanging(Dataset[Any]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        time.sleep(LONG_S if index >= 24 else 0)
        return torch.zeros(2)


def some_batches(noted: str) -> Any:
    signal.signal(signal.SIGTERM, lambda *_: None)
    batches = iter(DataLoader(Hanging(), batch_size=4))
    for _ in range(6):
        next(batches)
    pids = [worker.pid for worker in multiprocessing.active_children()]
    Path(noted).write_text(" ".join(map(str, pids)), encoding="ascii")
    return batches


def pass_left_early(noted: str) -> None:
    """Torch waits for its workers, tells them to end, and waits again."""
    torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = MP_STATUS_CHECK_INTERVAL / 50
    some_batches(noted)


def end_of_python(noted: str) -> None:
    globals()["batches"] = some_batches(noted)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
