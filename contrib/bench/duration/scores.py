"""Scores of predicted durations.

Durations below 1 s count as 1 s; `mae` is in s, `medape` in per cent. Coverage of the 90 % interval
is given overall, by week of submission and by day, both counted from the first. Weeks are judged; a
week with fewer than FEWEST jobs is only listed.
"""

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
    """Of the interval; `worst_weeks` are the lowest and the highest, None where none is judged."""
    weeks = _by(inside, submit_s, 7 * DAY_S)
    judged = [week["coverage90"] for week in weeks if week["n"] >= FEWEST]
    return {
        "coverage90": float(inside.mean()),
        "by_week": weeks,
        "by_day": _by(inside, submit_s, DAY_S),
        "worst_weeks": [min(judged), max(judged)] if judged else None,
    }


def _by(inside: Marks, submit_s: Array, period_s: float) -> list[dict[str, Any]]:
    period = ((submit_s - submit_s.min()) // period_s).astype(int)
    parts = [inside[period == at] for at in range(period.max() + 1)]
    return [{"n": len(part), "coverage90": float(part.mean())} for part in parts if len(part)]
