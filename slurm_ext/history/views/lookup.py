"""Queries of `dlqueue predict`: few rows by index, standard library only.

Every query here touches a number of rows that its limit sets, not the size of the history.
"""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_ext.core.records import MOST_POOLED, POOLED_LEVELS, Level, LoaderRun
from slurm_ext.core.stats import fair_rows
from slurm_ext.history.store.names import KEY_OF_LEVEL, LOADER_COLUMNS
from slurm_ext.history.store.reading import explaining

_COLUMNS = ", ".join(f"l.{name}" for name in LOADER_COLUMNS)
MOST_WALKED = 256  # runs of a program that are looked at for those of one user, or of several


def newest(key: str) -> str:
    """The query for the newest runs of one key column: a range at one index's end.

    Behind the columns of LoaderRun stand the run's user and account.
    """
    near = f"SELECT * FROM loader_runs WHERE {key} = ? ORDER BY id DESC LIMIT ?"
    return f"SELECT {_COLUMNS}, r.user, r.account FROM ({near}) l CROSS JOIN runs r ON r.id = l.run"


def similar_runs(
    conn: sqlite3.Connection,
    path: Path,
    keys: Mapping[Level, int],
    limit: int = 16,
    *,
    user: str = "",
    account: str | None = None,
) -> dict[Level, list[LoaderRun]]:
    """The newest `limit` runs that share each level's key, newest first. Raises HistoryError.

    `user` and `account`: the job's. At levels of any user at most MOST_POOLED, and no user has
    more than a fair share of them.
    """
    owners = {Level.OWN_KIND: (-2, user), Level.ACCOUNT_KIND: (-1, account)}
    with explaining(path):
        alike = {}
        for level, key in keys.items():
            if level in owners:
                column, owner = owners[level]
                rows = _rows(conn, Level.KIND, keys[Level.KIND], MOST_WALKED)
                rows = [row for row in rows if row[column] == owner][:limit]
            elif level in POOLED_LEVELS:
                rows = _rows(conn, level, key, MOST_WALKED)
                places = fair_rows([row[-2] for row in rows], MOST_POOLED)
                rows = [rows[place] for place in places]
            else:
                rows = _rows(conn, level, key, limit)
            alike[level] = [_run(row[:-2]) for row in rows]
        return alike


_WITH_WORKERS = f"""
SELECT {_COLUMNS} FROM (
    SELECT id FROM runs WHERE user = ? ORDER BY end_s DESC LIMIT {MOST_WALKED}
) r JOIN loader_runs l ON l.run = r.id WHERE l.workers > 0 AND l.doubt IS NULL
ORDER BY l.id DESC LIMIT ?"""


def runs_with_workers(
    conn: sqlite3.Connection, path: Path, user: str, limit: int = 16
) -> list[LoaderRun]:
    """The newest sound runs of a user that had workers, newest first. Raises HistoryError."""
    with explaining(path):
        return [_run(row) for row in conn.execute(_WITH_WORKERS, (user, limit))]


def _rows(conn: sqlite3.Connection, level: Level, key: int, limit: int) -> list[tuple[Any, ...]]:
    return conn.execute(newest(KEY_OF_LEVEL[level]), (key, limit)).fetchall()


def _run(row: tuple[Any, ...]) -> LoaderRun:
    values = dict(zip(LOADER_COLUMNS, row, strict=True))
    return LoaderRun(**{**values, "emulated": bool(values["emulated"])})
