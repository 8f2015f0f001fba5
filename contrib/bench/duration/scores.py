"""Figures of foretold against real durations.

`log_r2` is R2 of natural logs, durations below 1 s taken as 1 s; `mae` in s, `medape` in per cent.
Coverage is of the 90 % interval: overall, by week of submission and by day, both counted from the
first. Weeks are judged; one with fewer than FEWEST jobs is only listed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FEWEST = 500
DAY_S = 86400.0


def errors(told_s: Array, real_s: Array) -> dict[str, float | None]:
    """Of a rule's seconds; null where a figure is not defined."""
    real, told = np.maximum(real_s, 1.0), np.maximum(told_s, 1.0)
    return {
        "log_r2": _r2(np.log(told), np.log(real)),
        "spearman": _spearman(told, real),
        "mae": float(np.abs(told - real).mean()),
        "medape": float(np.median(np.abs(told / real - 1))) * 100,
    }


def coverage(inside: NDArray[np.bool_], submit_s: Array) -> dict[str, Any]:
    """Of the interval; `worst_weeks` are the lowest and the highest, None where none is judged."""
    weeks = _by(inside, submit_s, 7 * DAY_S)
    judged = [week["coverage90"] for week in weeks if week["n"] >= FEWEST]
    return {
        "coverage90": float(inside.mean()),
        "by_week": weeks,
        "by_day": _by(inside, submit_s, DAY_S),
        "worst_weeks": [min(judged), max(judged)] if judged else None,
    }


def _by(inside: NDArray[np.bool_], submit_s: Array, period_s: float) -> list[dict[str, Any]]:
    period = ((submit_s - submit_s.min()) // period_s).astype(int)
    parts = [inside[period == at] for at in range(period.max() + 1)]
    return [{"n": len(part), "coverage90": float(part.mean())} for part in parts if len(part)]


def _r2(told: Array, real: Array) -> float | None:
    total = float(((real - real.mean()) ** 2).sum())
    return 1 - float(((told - real) ** 2).sum()) / total if total else None


def _spearman(left: Array, right: Array) -> float | None:
    from scipy.stats import rankdata

    a, b = rankdata(left), rankdata(right)
    return float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else None
