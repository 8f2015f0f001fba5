"""Metrics of dlqueue itself, by its own ledger: errors of its predictions, and its gain.

A bounded number of the newest rows, so that a query costs the same in a large history; one user's
make way for those of others, as where the advisor judges itself.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from slurm_ext.core.stats import FEWEST
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.views.gain import GainEstimate, estimate_gain
from slurm_ext.history.views.outcomes import Residual, fair_outcomes

NEWEST_BELIEFS = 200
NEWEST_FEW = 20
_QUARTER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionAccuracy:
    """The newest outcomes against their predictions."""

    outcomes: int
    error: float  # median of |achieved / predicted - 1|
    coverage: float  # share that the interval held
    newest_coverage: float  # of the NEWEST_FEW
    drift: float | None  # the newest quarter's error over that of the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfMetrics:
    """Metrics of dlqueue itself, from the ledger."""

    beliefs: PredictionAccuracy | None  # None: no outcome is known
    gain: GainEstimate
    set_aside: int
    dropped: int  # records beyond the bounds of what is set aside: gone
    journals: dict[str, int]  # name → bytes of it that are in the ledger


def read_self_metrics(conn: sqlite3.Connection, path: Path) -> SelfMetrics:
    """Over an open connection. Raises HistoryError."""
    residuals = fair_outcomes(conn, path, NEWEST_BELIEFS)
    with explaining(path):
        gain = estimate_gain(conn)
        aside = conn.execute("SELECT count(*) FROM set_aside").fetchone()[0]
        dropped = conn.execute("SELECT sum(records) FROM set_aside_dropped").fetchone()[0] or 0
        journals = dict(conn.execute("SELECT name, offset FROM journals").fetchall())
    return SelfMetrics(
        beliefs=accuracy_of(residuals),
        gain=gain,
        set_aside=aside,
        dropped=dropped,
        journals=journals,
    )


def accuracy_of(residuals: Sequence[Residual]) -> PredictionAccuracy | None:
    """Of outcomes, newest first; None where there is none."""
    usable = [
        residual for residual in residuals if residual.predicted > 0 and residual.achieved > 0
    ]
    if not usable:
        return None
    errors = [abs(residual.achieved / residual.predicted - 1) for residual in usable]
    newest, before = errors[: len(errors) // _QUARTER], errors[len(errors) // _QUARTER :]
    enough = len(newest) >= FEWEST and median(before) > 0
    return PredictionAccuracy(
        outcomes=len(usable),
        error=median(errors),
        coverage=fmean(residual.inside for residual in usable),
        newest_coverage=fmean(residual.inside for residual in usable[:NEWEST_FEW]),
        drift=median(newest) / median(before) if enough else None,
    )
