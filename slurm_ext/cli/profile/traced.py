"""Traced windows of all ranks: exposed communication by kind of collective. Pure.

A collective ends on all ranks together, so the rank that waits least tells what sending takes; what
the mean rank waits longer is waiting for a slow one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from slurm_ext.probe.windows.estimate import EXPOSED, mean, with_exposed
from slurm_ext.probe.windows.exposed import HIDDEN
from slurm_ext.probe.windows.plan import TRACED

SLOW = "slow rank"
Row = Mapping[str, float]
Windows = list[list[Row]]  # windows, steps, seconds by name
Series = dict[str, list[list[float]]]


def traced_series(entered: Sequence[Mapping[str, Any]]) -> Series:
    """Series of EXPOSED, of each kind of collective, of HIDDEN and of SLOW; {}: no trace."""
    ranks = [[w["sent"] for w in rank["windows"] if w["kind"] == TRACED] for rank in entered]
    if not all(any(windows) for windows in ranks):
        return {}
    means: Windows = [
        [_mean_row(step) for step in zip(*windows, strict=False)]
        for windows in zip(*ranks, strict=False)
    ]
    whole = with_exposed({}, means)[EXPOSED]
    least = min(ranks, key=lambda windows: mean(with_exposed({}, windows)[EXPOSED]))
    series: Series = {EXPOSED: whole, HIDDEN: _named(means, HIDDEN)}
    if len(ranks) > 1:
        series[SLOW] = _less(whole, with_exposed({}, least)[EXPOSED])
    kinds = {name for steps in least for row in steps for name in row} - {HIDDEN}
    return series | {name: _named(least, name) for name in sorted(kinds)}


def collectives(series: Mapping[str, object]) -> list[str]:
    """The kinds of collective among the names of series."""
    return [name for name in series if len(name) > 1 and name not in (SLOW, HIDDEN)]


def _mean_row(rows: Sequence[Row]) -> Row:
    names = {name for row in rows for name in row}
    return {name: sum(row.get(name, 0.0) for row in rows) / len(rows) for name in names}


def _named(windows: Windows, name: str) -> list[list[float]]:
    return [[row.get(name, 0.0) for row in steps] for steps in windows]


def _less(whole: list[list[float]], part: list[list[float]]) -> list[list[float]]:
    return [
        [a - b for a, b in zip(steps, others, strict=False)]
        for steps, others in zip(whole, part, strict=False)
    ]
