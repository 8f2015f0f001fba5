"""Finished jobs, each once, for predictions of run time: names, sizes, times."""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from math import inf
from typing import Any

from slurm_ext.history.store.pages import LAST, ON_PAGE, newest_first, oldest_first
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

COLUMNS = (
    "id",
    "cluster",
    "job_id",
    "node",
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
_NAMES = ", ".join(f"r.{name}" for name in COLUMNS)
_NEWEST = "r.end_s DESC, r.id DESC"

# Every node of a job has a record of it: the first one counts.
_FIRST = """
NOT EXISTS (SELECT 1 FROM runs e WHERE e.job_id = r.job_id AND e.restart = r.restart
  AND e.cluster = r.cluster AND e.id < r.id)"""


def newest_finished(
    history: History, most: int, *, before_s: float = inf
) -> Iterator[dict[str, Any]]:
    """The last `most` jobs that ended (before that moment), the first of them first."""
    high = (before_s, LAST[1])
    places = f"SELECT r.end_s, r.id FROM runs r WHERE {ON_PAGE} AND {_FIRST} ORDER BY {_NEWEST}"
    low, *_ = [*deque(islice(newest_first(history, places, high=high), most), 1), high]
    sql = f"SELECT {_NAMES} FROM runs r WHERE {ON_PAGE} AND {_FIRST} ORDER BY r.end_s, r.id"
    for row in oldest_first(history, sql, low, high):
        yield dict(zip(COLUMNS, row, strict=True))


def finished_since(history: History, after_id: int) -> Iterator[dict[str, Any]]:
    """Jobs whose record came in after the run `after_id`, in that order."""
    sql = f"SELECT {_NAMES} FROM runs r WHERE id > ? AND end_s IS NOT NULL AND {_FIRST} ORDER BY id"
    yield from _rows(history, sql, after_id)


def _rows(history: History, sql: str, *values: float) -> Iterator[dict[str, Any]]:
    with explaining(history.path):
        cursor = history.conn.execute(sql, values)
        while rows := cursor.fetchmany(_ROWS):
            yield from (dict(zip(COLUMNS, row, strict=True)) for row in rows)
