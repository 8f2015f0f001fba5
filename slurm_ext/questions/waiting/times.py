"""Times as people here read them."""

import time


def at(at_s: float) -> str:
    """A local time to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s))


def about(seconds: float) -> str:
    """A duration in its largest unit."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s"
