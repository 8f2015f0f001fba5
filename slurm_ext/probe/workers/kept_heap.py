"""Memory that a fetch frees stays with its worker, for the next fetch.

glibc gives a heap's free end back to the system once it is longer than twice the largest block that
was ever freed. Where a picture is two such blocks, that is after each picture: a quarter of a
worker's time went into the same pages, freed and faulted in again, or none of it, as the heap
happened to lie. The bounds set here are the highest ones that glibc itself would come to
(mallopt(3)).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any, Callable

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
_LARGEST = 32 << 20  # longer blocks are the system's own, and go back to it when they are freed
_FREE_END = 2 * _LARGEST
_VARIABLES = "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_"


class KeptHeap:
    """A `worker_init_fn` that keeps freed memory, then calls the loader's own one.

    It is made before the fork: a worker must not ask the dynamic loader, whose lock another thread
    may have held. A user's word on malloc, in the environment, wins.
    """

    def __init__(self, init: Callable[[int], Any] | None) -> None:
        self.init = init
        self._mallopt: Any = None
        if not _user_has_a_word():
            with contextlib.suppress(Exception):  # another libc
                self._mallopt = ctypes.CDLL(None).mallopt

    def __call__(self, number: int) -> None:
        """As torch calls it, in the worker."""
        if self._mallopt is not None:
            self._mallopt(_MMAP_THRESHOLD, _LARGEST)
            self._mallopt(_TRIM_THRESHOLD, _FREE_END)
        if self.init is not None:
            self.init(number)


def _user_has_a_word() -> bool:
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return "glibc.malloc." in tunables or any(name in os.environ for name in _VARIABLES)
