"""Signals as a descriptor to wait for: a daemon handles them between two steps of its work."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signals(*others: signal.Signals) -> Iterator[int]:
    """Yield a descriptor that becomes readable on SIGTERM, SIGINT or one of `others`.

    It gives the signals' numbers, a byte each. In the main thread only.
    """
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    numbers = (signal.SIGTERM, signal.SIGINT, *others)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
