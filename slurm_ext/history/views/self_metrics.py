"""How dlqueue stands, by its own ledger: how far beliefs are off, and what was gained.

A bounded number of the newest rows, so that asking costs the same in a large history.
"""

import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, variance

from slurm_ext.core.stats import normal_reach
from slurm_ext.history.store.sqlite_errors import explaining
from slurm_ext.history.views.lookup import Residual, outcomes_of

NEWEST_BELIEFS = 200
NEWEST_GAINS = 5000
FEWEST = 8  # of a group: below, nothing is told of it (as the report has it)
_QUARTER = 4

_GAINS = """
SELECT d.holdout, l.samples_per_s / d.before_samples_per_s
FROM decisions d INDEXED BY decisions_believed
CROSS JOIN runs r ON r.decision = d.token CROSS JOIN loader_runs l ON l.run = r.id
WHERE d.state = 'claimed' AND d.after_samples_per_s IS NOT NULL
    AND d.mode = 'act' AND d.action = 'change'
    AND l.samples_per_s > 0 AND d.before_samples_per_s > 0
ORDER BY d.id DESC LIMIT ?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionAccuracy:
    """The newest outcomes against what was believed of them."""

    outcomes: int
    error: float  # median of |achieved / predicted - 1|
    coverage: float  # share that the interval held
    drift: float | None  # the newest quarter's error over that of the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class GainEstimate:
    """Changed jobs over the control group, each against its belief as written; 95 % interval."""

    changed: int
    control: int
    ratio: float | None  # None: too few of a group
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfMetrics:
    """All that the ledger tells of dlqueue itself."""

    beliefs: PredictionAccuracy | None  # None: no outcome is known
    gain: GainEstimate
    set_aside: int
    journals: dict[str, int]  # name → bytes of it that are in the ledger


def read_self_metrics(conn: sqlite3.Connection, path: Path) -> SelfMetrics:
    """Over an open connection. Raises HistoryError."""
    residuals = outcomes_of(conn, path, NEWEST_BELIEFS)
    with explaining(path):
        gains = conn.execute(_GAINS, (NEWEST_GAINS,)).fetchall()
        aside = conn.execute("SELECT count(*) FROM set_aside").fetchone()[0]
        journals = dict(conn.execute("SELECT name, offset FROM journals").fetchall())
    return SelfMetrics(
        beliefs=accuracy_of(residuals),
        gain=estimate_gain(gains),
        set_aside=aside,
        journals=journals,
    )


def accuracy_of(residuals: Sequence[Residual]) -> PredictionAccuracy | None:
    """Of outcomes, newest first; None where there is none."""
    usable = [one for one in residuals if one.predicted > 0 and one.achieved > 0]
    if not usable:
        return None
    errors = [abs(one.achieved / one.predicted - 1) for one in usable]
    newest, before = errors[: len(errors) // _QUARTER], errors[len(errors) // _QUARTER :]
    enough = len(newest) >= FEWEST and median(before) > 0
    return PredictionAccuracy(
        outcomes=len(usable),
        error=median(errors),
        coverage=fmean(one.low <= one.achieved <= one.high for one in usable),
        drift=median(newest) / median(before) if enough else None,
    )


def estimate_gain(rows: Sequence[tuple[int, float]]) -> GainEstimate:
    """Of (held out, rate over belief as written) pairs."""
    changed, control = ([math.log(r) for held, r in rows if bool(held) == k] for k in (False, True))
    if min(len(changed), len(control)) < FEWEST:
        return GainEstimate(
            changed=len(changed), control=len(control), ratio=None, low=None, high=None
        )
    gain = fmean(changed) - fmean(control)
    spread = normal_reach(0.95) * math.sqrt(
        variance(changed) / len(changed) + variance(control) / len(control)
    )
    low, mean, high = (math.exp(gain + step) for step in (-spread, 0, spread))
    return GainEstimate(changed=len(changed), control=len(control), ratio=mean, low=low, high=high)
