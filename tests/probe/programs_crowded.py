"""Trainings where more workers than their users wrote do not fit: of files, or of shared memory.

`python -m tests.probe.programs_crowded NAME` prints "done" at the end of a whole training.
"""

# ruff: noqa: D101, D103, T201 - written as jobs are, each named by what it does

import resource
import sys
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

STALL_S = 1.5  # of one read: all other batches come meanwhile, and are held


class Images(Dataset[Any]):
    def __init__(self, count: int, numbers: int) -> None:
        self.count, self.numbers = count, numbers

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        time.sleep(STALL_S if index == self.count // 2 else 0)
        return torch.full((self.numbers,), float(index))


def train(loader: Any, passes: int = 1) -> None:
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(passes):
        for batch in loader:
            optimizer.zero_grad()
            (weight * batch[0].flatten()[0]).sum().backward()
            optimizer.step()
            time.sleep(0.02)
    print("done")


def images_apart() -> None:
    """As a detection's: a list of tensors, each of which is a file of this process on its way."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    train(DataLoader(Images(1600, 100), batch_size=40, num_workers=2, collate_fn=list))


def large_batches() -> None:
    """Of 8 MiB each, of which the two workers' fit into the 64 MB of a container."""
    train(DataLoader(Images(240, 1 << 19), batch_size=4, num_workers=2))


def few_files() -> None:
    """Too few for many workers to start."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
    train(DataLoader(Images(400, 3), batch_size=8, num_workers=2), passes=3)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
