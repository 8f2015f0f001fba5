"""A loader whose fetch holds three large blocks and frees them; prints what its workers saw.

One JSON object: `faults`, the page faults of a fetch (their median, first ones left out), and
`begun`, the number of the workers in which the program's own `worker_init_fn` was called.
"""

# ruff: noqa: T201 - its output is its answer

import json
import os
import resource
import sys
import tempfile
from pathlib import Path
from statistics import median

import torch
from torch.utils.data import DataLoader, Dataset

BLOCK = 20 << 20  # shorter than what glibc maps apart for good; three are longer than it keeps
FIRST = 40  # fetches, in which heaps grow


class Freeing(Dataset[torch.Tensor]):
    """Item i: the page faults that its blocks cost."""

    def __len__(self) -> int:
        return 120

    def __getitem__(self, index: int) -> torch.Tensor:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        blocks = [bytearray(BLOCK) for _ in range(3)]
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        del blocks
        return torch.tensor([faults, os.getpid()])


def main() -> None:
    """Read one epoch, with as many workers as the first argument says."""
    workers, folder = int(sys.argv[1]), Path(tempfile.mkdtemp())

    def init(number: int) -> None:
        del number  # by which it would keep its own workers
        (folder / str(os.getpid())).touch()

    loader = DataLoader(
        Freeing(), batch_size=4, num_workers=workers, worker_init_fn=init if workers else None
    )
    rows = [batch[:, 0].tolist() for batch in loader]
    faults = [fault for row in rows for fault in row][FIRST:]
    begun = len(list(folder.iterdir()))
    print(json.dumps({"faults": median(faults), "begun": begun}))


if __name__ == "__main__":
    main()
