"""One training of `autotune`, as its author wrote it, for so many seconds.

    python -m contrib.bench.autotune.training KIND --workers N --seconds S

Its accelerator is emulated: a timed wait for each batch. It prints one JSON object: seconds since
the first loader was asked, for every step.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from contrib.bench.autotune.kinds import KINDS, LoaderKind, Samples


def loader(kind: LoaderKind, batches: int, workers: int) -> Any:
    """A DataLoader of torch's own."""
    from torch.utils.data import DataLoader

    dataset: Any = Samples(kind, batches)
    return DataLoader(dataset, batch_size=kind.batch, shuffle=True, num_workers=workers)


def epochs(kind: LoaderKind, workers: int) -> Iterator[Any]:
    """Every batch of every epoch; a validation comes without a step after each."""
    train = loader(kind, kind.batches, workers)
    beside = loader(kind, kind.batches, workers) if kind.beside else None
    checks = loader(kind, kind.validation, workers) if kind.validation else ()
    while True:
        yield from train if beside is None else zip(train, beside, strict=True)
        for _ in checks:
            pass


def main() -> None:
    """Train, and print when each step was done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    import torch

    os.environ["DLQUEUE_EMULATED"] = "1"  # for the probe: the step costs no cores
    torch.set_num_threads(1)
    kind, done = KINDS[args.kind], list[float]()
    began = time.monotonic()
    for _ in epochs(kind, args.workers):
        time.sleep(kind.step_s)
        done.append(round(time.monotonic() - began, 4))
        if done[-1] >= args.seconds:
            break
    print(json.dumps(done))


if __name__ == "__main__":
    main()
