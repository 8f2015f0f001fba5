"""Bulk reads, streamed: the server's start (a million loader runs in seconds) and training."""

from collections.abc import Iterator
from typing import Any

from slurm_ext.history.store.names import KEY_COLUMNS, LOADER_COLUMNS
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

SERVER_COLUMNS = ("id", *KEY_COLUMNS, "user", "account", *LOADER_COLUMNS)
"""Order of `loader_rows`: the id, stored keys (None where unknown), owners, LoaderRun's fields."""

TRAINING_COLUMNS = (
    "end_s",
    "elapsed_s",
    "state",
    "user",
    "partition",
    *KEY_COLUMNS,
    *LOADER_COLUMNS,
)
"""Order of `training_rows`: seconds since the epoch, and what a split by time or user needs."""

_RUN_FIELDS = ("end_s", "elapsed_s", "state", "user", "partition")
_ARRAY_ROWS = 4096


def loader_rows(history: History, after_rowid: int = 0) -> Iterator[tuple[Any, ...]]:
    """Loader runs with an id beyond `after_rowid`, oldest first, as tuples of SERVER_COLUMNS."""
    names = [f"{'r' if name in ('user', 'account') else 'l'}.{name}" for name in SERVER_COLUMNS]
    sql = (
        f"SELECT {', '.join(names)} FROM loader_runs l CROSS JOIN runs r ON r.id = l.run"
        " WHERE l.id > ? ORDER BY l.id"
    )
    return _streamed(history, sql, (after_rowid,))


def training_rows(
    history: History, *, after_s: float = 0.0, before_s: float = 1e18
) -> Iterator[tuple[Any, ...]]:
    """Loader runs that ended in [after_s, before_s), by end, as tuples of TRAINING_COLUMNS."""
    names = [f"{'r' if name in _RUN_FIELDS else 'l'}.{name}" for name in TRAINING_COLUMNS]
    sql = (
        f"SELECT {', '.join(names)} FROM runs r JOIN loader_runs l ON l.run = r.id"
        " WHERE r.end_s >= ? AND r.end_s < ? ORDER BY r.end_s, l.id"
    )
    return _streamed(history, sql, (after_s, before_s))


def loader_count(history: History) -> int:
    """Count loader runs: the server sizes its table by it."""
    with explaining(history.path):
        (count,) = history.conn.execute("SELECT count(*) FROM loader_runs").fetchone()
    return int(count)


def _streamed(history: History, sql: str, values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    with explaining(history.path):
        cursor = history.conn.execute(sql, values)
        while rows := cursor.fetchmany(_ARRAY_ROWS):
            yield from rows
