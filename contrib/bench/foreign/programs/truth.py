"""The clock of the program itself: what it trained on, for how long, and every loss."""

import contextlib
import hashlib
import json
import os
import random
import time
from collections.abc import Iterable, Iterator
from typing import Any

_END = object()


class Truth:
    """Counted by the program's own loop, so that nothing of the probe is part of it."""

    def __init__(self) -> None:
        self.samples = 0
        self.steps = 0
        self.seconds = 0.0
        self.waited = 0.0
        self._losses = hashlib.sha256()
        self._began = 0.0

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """Around an epoch, or a whole training without validation."""
        self.begin()
        yield
        self.end()

    def begin(self) -> None:
        """An epoch begins."""
        self._began = time.perf_counter()

    def end(self) -> None:
        """It has ended."""
        self.seconds += time.perf_counter() - self._began

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Hand on a loader's batches, and count the time for which the loop waits for them."""
        began = time.perf_counter()
        feed = iter(loader)
        while True:
            batch = next(feed, _END)
            self.waited += time.perf_counter() - began
            if batch is _END:
                return
            yield batch
            began = time.perf_counter()

    def trained(self, samples: int, loss: Any) -> None:
        """One step was made with so many samples."""
        self.samples += samples
        self.steps += 1
        self._losses.update(repr(float(loss)).encode())

    def saw(self, value: Any) -> None:
        """The program read this besides: it is part of its results."""
        self._losses.update(repr(value).encode())

    def tell(self) -> None:
        """Print one line, in one piece: ranks print theirs at the same time."""
        told = {
            "samples": self.samples,
            "steps": self.steps,
            "seconds": self.seconds,
            "waited": self.waited,
            "losses": self._losses.hexdigest()[:16],
        }
        os.write(1, f"\nTRUTH {json.dumps(told)}\n".encode())


def same_each_time() -> None:
    """Seeds that nobody chose, but the same ones in every run: results can be compared.

    Torch's is a 64-bit number, as an unseeded program's is.
    """
    import torch

    random.seed(1)
    torch.manual_seed((1 << 40) + 7)
    with contextlib.suppress(ImportError):
        import numpy as np

        np.random.seed(1)
