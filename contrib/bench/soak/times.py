"""Reads the times of a process: used on processors, and waited for one."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of CPU, and seconds for which the first thread waited for a core."""

    cpu_s: float = 0.0
    queued_s: float = 0.0


def times_of(process: Path) -> Times:
    """The times of a process by its folder in /proc. Raises OSError."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    queued_ns = int((process / "schedstat").read_text().split()[1])
    return Times((int(fields[11]) + int(fields[12])) / _TICKS, queued_ns / 1e9)
