"""The gain: rates of jobs that dlqueue changed against jobs that a draw left as written.

Each rate is divided by the prediction for the job as written, which makes jobs of all sizes one
kind of number and favours neither group: the draw decides who is changed, not the prediction. A
decision counts once, however many runs it became. Report, Prometheus and `explain` use this
estimate and no other; what was saved (savings.py) weighs the same rows by the hours they held.
"""

import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slurm_ext.core.stats import LogGroup, Ratio, welch_ratio

NEWEST = 5000  # outcomes, so that asking costs the same in a large history
ELIGIBLE = (
    "{0}mode = 'act' AND {0}action = 'change' AND {0}achieved > 0"
    " AND {0}before_samples_per_s > 0 AND {0}after_samples_per_s > 0"
)
"""Condition on rows of `outcomes`, which a prefix names: `o.`, or nothing."""
_ELIGIBLE = ELIGIBLE.format("")
_NEWEST_RUNS = (
    f"run IN (SELECT run FROM outcomes WHERE {_ELIGIBLE} ORDER BY decision DESC LIMIT {NEWEST})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GainEstimate:
    """Logarithms of both groups; `ratio` with Welch's 95 % interval, None of too few."""

    changed: LogGroup
    control: LogGroup
    ratio: Ratio | None


def gain_json(gain: GainEstimate) -> dict[str, Any] | None:
    """`{changed, control, ratio, low, high}` for programs; None where nothing can be claimed."""
    if gain.ratio is None:
        return None
    counts = {"changed": gain.changed.n, "control": gain.control.n}
    return {**counts, "ratio": gain.ratio.value, "low": gain.ratio.low, "high": gain.ratio.high}


def decisions_by(which: str) -> str:
    """Query of decisions with eligible outcomes: (holdout, x, predicted) of each.

    `x` is the mean ln of rate over predicted rate as written, `predicted` of the predicted gain.
    `which`: a condition on the view `outcomes`.
    """
    return (
        "SELECT holdout, avg(ln(achieved / before_samples_per_s)) AS x,"
        " avg(ln(after_samples_per_s / before_samples_per_s)) AS predicted"
        f" FROM outcomes WHERE {_ELIGIBLE} AND {which} GROUP BY decision"
    )


def estimate_gain(
    conn: sqlite3.Connection, which: str = _NEWEST_RUNS, values: Sequence[Any] = ()
) -> GainEstimate:
    """The gain over outcomes that satisfy a condition; the newest ones without. Raises sqlite3."""
    with_logarithm(conn)
    sql = f"SELECT holdout, count(*), sum(x), sum(x * x) FROM ({decisions_by(which)}) GROUP BY 1"
    groups = {bool(holdout): LogGroup(*sums) for holdout, *sums in conn.execute(sql, values)}
    changed, control = (groups.get(holdout, LogGroup(0, 0.0, 0.0)) for holdout in (False, True))
    return GainEstimate(changed=changed, control=control, ratio=welch_ratio(changed, control))


def with_logarithm(conn: sqlite3.Connection) -> None:
    """Give the connection `ln` and `floor`, which SQLite has only where it was built with them."""
    for name, function in (("ln", _ln), ("floor", _floor)):
        try:
            conn.execute(f"SELECT {name}(1)")
        except sqlite3.OperationalError:
            conn.create_function(name, 1, function, deterministic=True)


def _ln(value: Any) -> float | None:
    return math.log(value) if isinstance(value, (int, float)) and value > 0 else None


def _floor(value: float | None) -> float | None:
    return value if value is None or math.isinf(value) else value // 1
