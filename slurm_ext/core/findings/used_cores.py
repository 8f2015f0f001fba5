"""Cores that one task of a job kept busy, by the CPU time of its cgroup. Pure."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

_Json = Mapping[str, Any]
_CPU = ("cpu_user", "cpu_system")
_COLUMNS = ("t_s", "cpu_s")
_NUMBERS = frozenset((int, float))
STRETCH_S, STRETCH_SHARE = 2.0, 0.02  # of the run: shorter bursts start processes, fill queues
UNSEEN = 1.25  # times the mean, where nobody saw how the CPU time was spread over the run


def used_cores(record: _Json) -> float | None:
    """Return the cores of one task in the job's busiest stretch; None: they were not counted.

    The mean of a whole run hides what its training needs behind its start and its end.
    """
    elapsed_s = (record.get("times") or {}).get("elapsed_s")
    counters = record.get("counters") or ()
    counted = [c.get("value") for c in counters if c.get("name") in _CPU]
    measured = [value for value in counted if value is not None]
    if not elapsed_s or not measured:
        return None
    mean, allocation = sum(measured) / elapsed_s, record["allocation"]
    stretch_s = max(STRETCH_S, STRETCH_SHARE * elapsed_s)
    busiest = _busiest(record.get("timeline") or {}, stretch_s)
    cores = UNSEEN * mean if busiest is None else max(mean, busiest)
    tasks = -(-(allocation.get("num_tasks") or 1) // (allocation.get("num_nodes") or 1))
    by_task = cores / max(1, tasks)
    return float(by_task) if isfinite(by_task) and by_task >= 0 else None


def _busiest(timeline: _Json, stretch_s: float) -> float | None:
    """Return the cores of a time line's busiest stretch; None: it is too short for one."""
    columns, rows = list(timeline.get("columns") or ()), timeline.get("rows") or ()
    if not set(_COLUMNS) <= set(columns):
        return None
    at, cpu = map(columns.index, _COLUMNS)
    last = max(at, cpu)
    points = [
        (row[at], row[cpu])
        for row in rows
        if type(row) is list and len(row) > last
        if type(row[at]) in _NUMBERS and type(row[cpu]) in _NUMBERS
    ]
    busiest, first = None, 0
    for time_s, cpu_s in points:
        # The latest row that is a stretch away: longer stretches hide what this one shows.
        while first + 1 < len(points) and points[first + 1][0] <= time_s - stretch_s:
            first += 1
        lasted_s = time_s - points[first][0]
        if lasted_s >= stretch_s:
            busiest = max(busiest or 0.0, (cpu_s - points[first][1]) / lasted_s)
    return busiest
