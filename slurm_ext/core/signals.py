"""Signals as something that can be waited for: a daemon looks at them where it is ready to."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signals(*others: signal.Signals) -> Iterator[int]:
    """A descriptor that becomes readable when we are to end, or one of `others` came.

    What is read from it are the signals' numbers, a byte each. In the main thread only.
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
