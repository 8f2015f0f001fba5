"""Ends of a process: Python's, and a child's of multiprocessing, which calls no atexit before 3.14.

Without the second one, what such a child trained since its latest summary would be lost.
"""

from __future__ import annotations

import atexit
import multiprocessing
from multiprocessing import util
from typing import Any, Callable

_EARLY = 10  # before its own children are waited for


def at_end(finish: Callable[[], Any]) -> Callable[[], Any]:
    """Call `finish` at this process's end; the result takes that back."""
    atexit.register(finish)
    child = multiprocessing.parent_process() is not None
    finalizer = util.Finalize(None, finish, exitpriority=_EARLY) if child else None

    def never() -> None:
        atexit.unregister(finish)
        if finalizer is not None:
            finalizer.cancel()

    return never
