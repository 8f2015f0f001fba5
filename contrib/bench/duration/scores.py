"""Scores of predicted durations.

Durations below 1 s count as 1 s; `mae` is in s, `medape` in per cent. Coverage of the 90 % interval
is given overall, by week of submission and by day, both counted from the first. Weeks are judged,
with the jobs that still ran when the trace was cut; a week with fewer than FEWEST jobs is only
listed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from contrib.bench.common import metrics
from contrib.bench.common.arrays import Array, Marks

FEWEST = 500
DAY_S = 86400.0


def errors(predicted_s: Array, real_s: Array) -> dict[str, float | None]:
    """Scores of predicted seconds."""
    predicted, real = np.maximum(predicted_s, 1.0), np.maximum(real_s, 1.0)
    return {**metrics.errors(predicted, real), "log_r2": metrics.log_r2(predicted, real)}


def coverage(inside: Marks, submit_s: Array) -> dict[str, Any]:
    """Of the interval, over jobs that ended."""
    return {
        "coverage90": float(inside.mean()),
        "by_week": _by(inside, submit_s, 7 * DAY_S),
        "by_day": _by(inside, submit_s, DAY_S),
    }


def weeks_of_all(
    inside: Marks, running: Marks, beyond: Marks, submit_s: Array
) -> list[tuple[int, float, float]]:
    """Jobs of each week, and the least and the most that its coverage can be.

    A job that still ran when the trace was cut is outside its interval if its age is `beyond` the
    upper bound already; else it may end on either side.
    """
    least = _by(inside & ~running, submit_s, 7 * DAY_S)
    most = _by(np.where(running, ~beyond, inside), submit_s, 7 * DAY_S)
    return [
        (low["n"], low["coverage90"], high["coverage90"])
        for low, high in zip(least, most, strict=True)
    ]


def judged_weeks(
    weeks: Sequence[tuple[int, float, float]], held: tuple[float, float]
) -> tuple[list[float] | None, bool]:
    """Lowest and highest coverage of weeks that can be judged, and whether all are within `held`.

    Where jobs that still ran decide, a week cannot be judged.
    """
    sure = [
        (low, high)
        for jobs, low, high in weeks
        if jobs >= FEWEST and (high < held[0] or low > held[1] or held[0] <= low <= high <= held[1])
    ]
    if not sure:
        return None, False
    worst = [min(low for low, _ in sure), max(high for _, high in sure)]
    return worst, held[0] <= worst[0] and worst[1] <= held[1]


def _by(inside: Marks, submit_s: Array, period_s: float) -> list[dict[str, Any]]:
    period = ((submit_s - submit_s.min()) // period_s).astype(int)
    parts = [inside[period == at] for at in range(period.max() + 1)]
    return [{"n": len(part), "coverage90": float(part.mean())} for part in parts if len(part)]
