"""Batches on their way from workers: the shared memory and the open files that they hold."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..counters.batches import BatchCounts


class Load(NamedTuple):
    """Bytes and files of this process that a batch holds, and how many each worker is ahead."""

    batch_bytes: float = 0.0
    files: float = 0.0
    prefetch: int = 2

    def most(self, other: Load) -> Load:
        """The larger one of each."""
        files, prefetch = max(self.files, other.files), max(self.prefetch, other.prefetch)
        return Load(max(self.batch_bytes, other.batch_bytes), files, prefetch)


def load_of(told: BatchCounts, iterator: Any) -> Load:
    """Batches of a pass as they come from `iterator`'s workers, as far as any were weighed."""
    files = told.mean_tensors() if _comes_in_files(iterator) else 0.0
    return Load(told.mean_bytes(), files, getattr(iterator, "_prefetch_factor", None) or 2)


def _comes_in_files(iterator: Any) -> bool:
    """True where each tensor is a file until it is freed: torch's thread that pins frees them."""
    strategy = sys.modules["torch"].multiprocessing.get_sharing_strategy()
    return strategy == "file_descriptor" and not getattr(iterator, "_pin_memory", False)
