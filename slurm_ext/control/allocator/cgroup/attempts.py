"""Attempts at an undo, because processes that are being killed take their time."""

import time
from collections.abc import Callable

ATTEMPTS, WAIT_S = 40, 0.05


def undone(undo: Callable[[], bool]) -> bool:
    """Call it until it returns True; False: it never did."""
    for _ in range(ATTEMPTS):
        if undo():
            return True
        time.sleep(WAIT_S)
    return False
