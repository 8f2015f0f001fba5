"""Memory that a process has freed, given back to the system.

The C library keeps what was freed between blocks that are in use, which after arrays of many sizes
is as much again as these.
"""

import ctypes


def give_back() -> bool:
    """True if some was given back; a C library other than glibc does so by itself, or not at all.

    Takes some milliseconds, in which other threads of Python go on.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return False
    return bool(trim(0))
