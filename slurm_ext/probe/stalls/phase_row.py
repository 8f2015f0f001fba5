"""Passes added up into the summary's phases."""

from __future__ import annotations

import math
from typing import Any

from .fetch_times import FetchTimes

_WHOLE = (
    "samples",
    "batches",
    "steps",
    "shared_steps",
    "epochs",
    "fetch_samples",
    "bytes_read",
    "delivered_bytes",
)


def add(total: dict[str, Any], part: dict[str, Any]) -> None:
    """Add a pass's part to a phase's total."""
    for key, value in part.items():
        total[key] = total.get(key, 0) + value


def phase_row(name: str, total: dict[str, Any]) -> dict[str, Any]:
    """A phase as the summary has it."""
    times: FetchTimes = total["fetch_times"]
    sums = {key: value for key, value in total.items() if value is not times}
    # Estimates and clocks of several sources: a difference of two may fall a little below zero.
    row: dict[str, Any] = {key: 0.0 if value < 0 else value for key, value in sums.items()}
    row["phase"] = name
    row["fetch_p50_s"], row["fetch_p99_s"] = map(times.percentile_s, (0.5, 0.99))
    row["workers"] = total["workers"] / total["wall_s"] if total["wall_s"] else 0.0
    for key in _WHOLE:
        row[key] = int(row[key])
    row["delivered_bytes"] = row["delivered_bytes"] or None  # no tensor was found in a batch
    for key in ("fetch_queued_s", "wait_queued_s", "step_queued_s"):
        row[key] = None if math.isnan(row[key]) else row[key]
    return row
