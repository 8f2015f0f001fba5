"""A run's samples over time as a few evenly spread points. Pure."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

POINTS = 60
RATES = {"cpus": "cpu_s", "read_bytes_per_s": "io_read_bytes", "gpus": "gpu_busy_s"}
LEVELS = ("mem_bytes", "gpu_mem_bytes")
Point = tuple[float, float]


def series_of(timeline: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """`{end_s, cpus, gpus, mem_bytes, gpu_mem_bytes, read_bytes_per_s, wait}`: lists of one length.

    `end_s` are the ends of at most POINTS equal stretches from the run's start, in seconds. `cpus`
    and `gpus` are how many were busy in each, `wait` is the share of the training's time that
    waited for data. What was not measured is None: in a stretch, or as a whole list. None where
    there are no two samples. `timeline`: as a record has it (counters/columns.py).
    """
    columns = dict(_columns(timeline or {}))
    times = [at for at, _ in columns.get("t_s", ())]
    if len(times) < 2 or times[-1] <= 0:
        return None
    many = min(POINTS, len(times))
    edges = [times[-1] * number / many for number in range(many + 1)]
    filled: dict[str, Any] = {"end_s": [round(edge, 3) for edge in edges[1:]]}
    for name, total in RATES.items():
        filled[name] = _known(_rates([(0.0, 0.0), *columns.get(total, ())], edges))
    for name in LEVELS:
        filled[name] = _known(_most(columns.get(name, ()), edges))
    filled["wait"] = _known(_shares(columns.get("wait_s", ()), columns.get("loop_s", ()), edges))
    return filled


def _columns(timeline: Mapping[str, Any]) -> Iterator[tuple[str, list[Point]]]:
    """Each column's samples as (seconds, value), in the order of time; rows may be short."""
    names, rows = list(timeline.get("columns") or ()), timeline.get("rows") or ()
    samples = [
        {name: value for name, value in zip(names, row, strict=False) if _is_number(value)}
        for row in rows
        if isinstance(row, list)
    ]
    timed = sorted({sample["t_s"]: sample for sample in samples if "t_s" in sample}.items())
    for name in names:
        yield name, [(at, sample[name]) for at, sample in timed if name in sample]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _rates(totals: Sequence[Point], edges: Sequence[float]) -> list[float | None]:
    """Gain a second of a running total in each stretch."""
    return [
        None if gain is None else round(gain / (end - start), 4)
        for start, end, gain in _gains(_climbing(totals), edges)
    ]


def _shares(
    waits: Sequence[Point], loops: Sequence[Point], edges: Sequence[float]
) -> list[float | None]:
    """Share of the loop's time that waited. Summaries are seconds old: only new ones count."""
    fresh = _climbing(loops, least=1e-3)
    times = {at for at, _ in fresh}
    in_loop = [gain for *_, gain in _gains(fresh, edges)]
    waited = [gain for *_, gain in _gains([wait for wait in waits if wait[0] in times], edges)]
    return [
        round(min(1.0, max(0.0, wait / loop)), 4) if loop and wait is not None else None
        for wait, loop in zip(waited, in_loop, strict=True)
    ]


def _climbing(totals: Sequence[Point], least: float = 0.0) -> list[Point]:
    """Samples of a running total without those that gained less than `least` on one before."""
    points: list[Point] = []
    for at, value in totals:
        if not points or (at > points[-1][0] and value >= points[-1][1] + least):
            points.append((at, value))
    return points


def _gains(
    totals: Sequence[Point], edges: Sequence[float]
) -> Iterator[tuple[float, float, float | None]]:
    """Start, end and gain of each stretch; None outside of what was sampled."""
    at = [_at(totals, edge) for edge in edges]
    for number, (start, end) in enumerate(pairwise(edges)):
        before, after = at[number], at[number + 1]
        yield start, end, None if before is None or after is None else max(0.0, after - before)


def _at(points: Sequence[Point], when: float) -> float | None:
    """The value at a time, between the samples around it; None before the first, after the last."""
    if len(points) < 2 or not points[0][0] <= when <= points[-1][0]:
        return None
    place = max(1, bisect_left(points, (when, float("-inf"))))
    (before_s, before), (after_s, after) = points[place - 1], points[place]
    return before + (after - before) * (when - before_s) / (after_s - before_s)


def _most(levels: Sequence[Point], edges: Sequence[float]) -> list[float | None]:
    """The largest sample in each stretch, else the value between its neighbours."""
    peaks: list[float | None] = []
    for start, end in pairwise(edges):
        inside = [value for at, value in levels if start < at <= end]
        peaks.append(max(inside) if inside else _at(levels, (start + end) / 2))
    return peaks


def _known(values: list[float | None]) -> list[float | None] | None:
    return values if any(value is not None for value in values) else None
