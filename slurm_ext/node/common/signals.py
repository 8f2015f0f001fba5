"""Signals to the process that is meant, and to none that got its pid since."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def send(pid: int, number: int, is_meant: Callable[[], bool]) -> None:
    """Send signal `number` if `is_meant()`, which is asked when the process can no longer change.

    A descriptor of the process holds it in place (Linux 5.3, Python 3.9); before those, a pid
    could be reused in the microseconds between question and signal.
    """
    import signal

    descriptor = None
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        pass  # an older kernel or Python, or the process is gone: then nobody is meant
    try:
        if is_meant():
            os.kill(pid, number) if descriptor is None else signal.pidfd_send_signal(
                descriptor, number
            )
    except OSError:
        pass  # it ended by itself meanwhile
    finally:
        if descriptor is not None:
            os.close(descriptor)
