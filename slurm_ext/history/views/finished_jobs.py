"""Finished jobs, each once, for predictions of run time: names, sizes, times."""

from collections.abc import Iterator
from math import inf
from typing import Any

from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

COLUMNS = (
    "id",
    "cluster",
    "job_id",
    "restart",
    "user",
    "job_name",
    "account",
    "partition",
    "cpus",
    "num_nodes",
    "gpus",
    "mem_bytes",
    "time_limit_s",
    "submit_s",
    "start_s",
    "end_s",
    "elapsed_s",
)
_ROWS = 1024

# Every node of a job has a record of it: the first one counts.
_FIRST = """
NOT EXISTS (SELECT 1 FROM runs e WHERE e.job_id = r.job_id AND e.restart = r.restart
  AND e.cluster = r.cluster AND e.id < r.id)"""


def newest_finished(
    history: History, most: int, *, before_s: float = inf
) -> Iterator[dict[str, Any]]:
    """The last `most` jobs that ended (before that moment), the first of them first."""
    names = ", ".join(COLUMNS)
    newest = f"SELECT * FROM runs r WHERE end_s <= ? AND {_FIRST} ORDER BY end_s DESC LIMIT ?"
    yield from _rows(history, f"SELECT {names} FROM ({newest}) ORDER BY end_s, id", before_s, most)


def finished_since(history: History, after_id: int) -> Iterator[dict[str, Any]]:
    """Jobs whose record came in after the run `after_id`, in that order."""
    names = ", ".join(COLUMNS)
    sql = f"SELECT {names} FROM runs r WHERE id > ? AND end_s IS NOT NULL AND {_FIRST} ORDER BY id"
    yield from _rows(history, sql, after_id)


def last_id(history: History) -> int:
    """The newest run's; 0 where there is none."""
    with explaining(history.path):
        (newest,) = history.conn.execute("SELECT max(id) FROM runs").fetchone()
    return newest or 0


def _rows(history: History, sql: str, *values: float) -> Iterator[dict[str, Any]]:
    with explaining(history.path):
        cursor = history.conn.execute(sql, values)
        while rows := cursor.fetchmany(_ROWS):
            yield from (dict(zip(COLUMNS, row, strict=True)) for row in rows)
