"""Figures of foretold against real durations.

`log_r2` is R2 of natural logs, durations below 1 s taken as 1 s; `mae` in s, `medape` in per cent.
Coverage is of the 90 % interval: overall, and by period of submission (a week, or a day where the
trace is a matter of days). A period with fewer than FEWEST jobs is listed but not judged.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FEWEST = 500


def errors(told_s: Array, real_s: Array) -> dict[str, float | None]:
    """Of a rule's seconds; null where a figure is not defined."""
    real, told = np.maximum(real_s, 1.0), np.maximum(told_s, 1.0)
    return {
        "log_r2": _r2(np.log(told), np.log(real)),
        "spearman": _spearman(told, real),
        "mae": float(np.abs(told - real).mean()),
        "medape": float(np.median(np.abs(told / real - 1))) * 100,
    }


def coverage(inside: NDArray[np.bool_], submit_s: Array, period_s: float) -> dict[str, Any]:
    """Of the interval, in all and by period counted from the first submission."""
    period = ((submit_s - submit_s.min()) // period_s).astype(int)
    parts = [inside[period == at] for at in range(period.max() + 1)]
    by = [{"n": len(part), "coverage90": float(part.mean())} for part in parts if len(part)]
    judged = [part["coverage90"] for part in by if part["n"] >= FEWEST]
    return {
        "coverage90": float(inside.mean()),
        "by_period": by,
        "period_days": period_s / 86400,
        "worst_periods": [min(judged), max(judged)] if judged else None,
    }


def _r2(told: Array, real: Array) -> float | None:
    total = float(((real - real.mean()) ** 2).sum())
    return 1 - float(((told - real) ** 2).sum()) / total if total else None


def _spearman(left: Array, right: Array) -> float | None:
    from scipy.stats import rankdata

    a, b = rankdata(left), rankdata(right)
    return float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else None
