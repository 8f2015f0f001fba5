"""Queries of `dlqueue predict`: few rows by index, standard library only.

Every query here touches a number of rows that its limit sets, not the size of the history.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.history.store import reading
from slurm_ext.history.store.names import KEY_OF_LEVEL, LOADER_COLUMNS
from slurm_ext.history.store.reading import explaining

_COLUMNS = ", ".join(LOADER_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """A claimed decision's prediction beside its run's rate; samples/s of one process."""

    predicted: float
    low: float
    high: float
    achieved: float
    level: Level
    runs: int
    factor: float  # by which low and high were widened then
    acted: bool  # the job ran as changed; otherwise the prediction is of the job as written


def newest(key: str) -> str:
    """The query for the newest runs of one key column: a range at one index's end."""
    return f"SELECT {_COLUMNS} FROM loader_runs WHERE {key} = ? ORDER BY id DESC LIMIT ?"


def similar_runs(
    path: Path, keys: Mapping[Level, int], limit: int = 16
) -> dict[Level, list[LoaderRun]]:
    """The newest `limit` runs that share each level's key, newest first. Raises HistoryError."""
    with closing(reading.connect(path)) as conn, explaining(path):
        return {
            level: [_run(row) for row in conn.execute(newest(KEY_OF_LEVEL[level]), (key, limit))]
            for level, key in keys.items()
        }


OUTCOMES = """
SELECT predicted, low, high, achieved, level, runs, factor, acted FROM outcomes
ORDER BY decision DESC LIMIT ?"""


def outcomes(path: Path, limit: int = 1000) -> list[Residual]:
    """Prediction and outcome of the newest claimed decisions, newest first. Raises HistoryError."""
    with closing(reading.connect(path)) as conn:
        return outcomes_of(conn, path, limit)


def outcomes_of(conn: sqlite3.Connection, path: Path, limit: int) -> list[Residual]:
    """`outcomes` over an open connection."""
    with explaining(path):
        rows = conn.execute(OUTCOMES, (limit,)).fetchall()
    return [_residual(row) for row in rows if row[0] is not None]


_OWNER = """
SELECT uid FROM (
    SELECT uid, ingested_s AS known_s FROM runs WHERE job_id = ?
    UNION ALL SELECT uid, claimed_s FROM decisions WHERE job_id = ?
) WHERE uid IS NOT NULL ORDER BY known_s DESC LIMIT 1"""


def owner_of(conn: sqlite3.Connection, path: Path, job_id: int) -> int | None:
    """The uid whose job this was, by its runs and decisions; None where it has none."""
    if not 0 <= job_id < 1 << 63:
        return None
    with explaining(path):
        found = conn.execute(_OWNER, (job_id, job_id)).fetchone()
    return None if found is None else int(found[0])


def _residual(row: tuple[Any, ...]) -> Residual:
    predicted, low, high, achieved, level, runs, factor, acted = row
    return Residual(
        predicted=predicted,
        low=low,
        high=high,
        achieved=achieved,
        level=Level(level),
        runs=runs,
        factor=factor,
        acted=bool(acted),
    )


def _run(row: tuple[Any, ...]) -> LoaderRun:
    values = dict(zip(LOADER_COLUMNS, row, strict=True))
    return LoaderRun(**{**values, "emulated": bool(values["emulated"])})
