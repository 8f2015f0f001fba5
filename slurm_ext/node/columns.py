"""What a record's counters and time line are called, and in which unit."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

TIMELINE = ("t_s", "cpu_s", "mem_bytes", "io_read_bytes")
UNITS = {
    "cpu_user": "s",
    "cpu_system": "s",
    "cpu_throttled": "s",
    "mem_peak": "B",
    "major_faults": "1",
    "oom_kills": "1",
    "io_read": "B",
    "io_write": "B",
    "context_switches": "1",
    "pressure_cpu_some": "s",
    "pressure_memory_some": "s",
    "pressure_io_some": "s",
}


def as_counters(totals: Mapping[str, Sequence[Any]]) -> list[dict[str, object]]:
    """The record's `counters`; what has no source ("none") on this node is null, never zero."""
    return [
        {"name": name, "unit": unit, "source": source, "value": value}
        for name, unit in UNITS.items()
        for source, value in [totals.get(name, ("none", None))]
    ]
