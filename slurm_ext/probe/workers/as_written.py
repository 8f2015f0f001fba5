"""Numbers that workers beyond those as written go by."""

from __future__ import annotations

import sys
from typing import Any, Callable


class AsWritten:
    """A `worker_init_fn` after which a worker has one of the user's numbers, of `own` in all.

    The program may have made a list of as many handles. Two workers bear the same number then, and
    random numbers of their own.
    """

    def __init__(self, init: Callable[[int], Any] | None, own: int) -> None:
        self.init, self.own = init, own

    def __call__(self, number: int) -> None:
        """As torch calls it, in the worker."""
        module: Any = sys.modules["torch.utils.data._utils.worker"]
        info, number = module._worker_info, number % self.own
        module._worker_info = module.WorkerInfo(
            id=number, num_workers=self.own, seed=info.seed, dataset=info.dataset
        )
        if self.init is not None:
            self.init(number)
