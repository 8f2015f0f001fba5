"""Turns of tests: one that measures a whole node runs alone, all others of this run wait."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
_ours: list[bool] = []  # turns that this process has: a test that runs again is in one already


@contextmanager
def turn(*, alone: bool) -> Iterator[None]:
    """Wait for a turn beside others, or for one without them.

    Who waits for the latter holds the gate, so that nobody begins before it. A turn within a turn
    is the same one: locks of two open files would wait for each other.
    """
    if _ours:
        yield
        return
    _ours.append(alone)
    try:
        with _locked(alone=alone):
            yield
    finally:
        _ours.clear()


@contextmanager
def _locked(*, alone: bool) -> Iterator[None]:
    names = (Path(tempfile.gettempdir()) / f"dlqueue-{_RUN}-{name}" for name in ("gate", "turn"))
    with next(names).open("a") as gate, next(names).open("a") as running:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            fcntl.flock(gate, fcntl.LOCK_UN)
        yield
