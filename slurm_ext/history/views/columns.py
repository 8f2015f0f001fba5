"""Bulk reads in pages: the server's start (a million loader runs in seconds) and training."""

from collections.abc import Iterator

from slurm_ext.history.store.names import KEY_COLUMNS, LOADER_COLUMNS
from slurm_ext.history.store.pages import ON_PAGE, Row, newest_first
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
"""Order in a row of `training_rows`: seconds since the epoch, what splits by time or user need."""

_RUN_FIELDS = ("end_s", "elapsed_s", "state", "user", "partition")
_ARRAY_ROWS = 4096


def loader_rows(history: History, after_rowid: int = 0) -> Iterator[Row]:
    """Loader runs with an id beyond `after_rowid`, oldest first, as tuples of SERVER_COLUMNS.

    Those that come in meanwhile are among them.
    """
    names = [f"{'r' if name in ('user', 'account') else 'l'}.{name}" for name in SERVER_COLUMNS]
    sql = (
        f"SELECT {', '.join(names)} FROM loader_runs l CROSS JOIN runs r ON r.id = l.run"
        " WHERE l.id > ? ORDER BY l.id LIMIT ?"
    )
    while True:
        with explaining(history.path):
            rows = history.conn.execute(sql, (after_rowid, _ARRAY_ROWS)).fetchall()
        yield from rows
        if len(rows) < _ARRAY_ROWS:
            return
        after_rowid = rows[-1][0]


def training_rows(
    history: History, *, after_s: float = 0.0, before_s: float = 1e18
) -> Iterator[Row]:
    """Loader runs that ended in [after_s, before_s), newest end first, as TRAINING_COLUMNS."""
    names = [f"{'r' if name in _RUN_FIELDS else 'l'}.{name}" for name in TRAINING_COLUMNS]
    sql = (
        f"SELECT {', '.join(names)} FROM runs r CROSS JOIN loader_runs l ON l.run = r.id"
        f" WHERE {ON_PAGE} ORDER BY r.end_s DESC, r.id DESC"
    )
    return newest_first(history, sql, (after_s, 0), (before_s, 0))


def loader_count(history: History) -> int:
    """Count loader runs: the server sizes its table by it."""
    with explaining(history.path):
        (count,) = history.conn.execute("SELECT count(*) FROM loader_runs").fetchone()
    return int(count)
