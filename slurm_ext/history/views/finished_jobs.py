"""Finished jobs, each once, for predictions of run time: names, sizes, times."""

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from math import inf
from typing import Any

from slurm_ext.core.stats import POOL_USERS
from slurm_ext.history.store.pages import LAST, Place, last_id
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

# Every node of a job has a record of it: the first one counts.
_FIRST = """
NOT EXISTS (SELECT 1 FROM runs e WHERE e.job_id = r.job_id AND e.restart = r.restart
  AND e.cluster = r.cluster AND e.id < r.id)"""
# A range of the index by user and end.
_OF_USER = """
SELECT r.end_s, r.id FROM runs r WHERE r.user IS ? AND (r.end_s, r.id) < (?, ?) AND r.end_s <= ?
AND r.id <= ? AND {} ORDER BY r.end_s DESC, r.id DESC LIMIT ?"""
# One look-up for each user: DISTINCT would read all runs. The last one is of runs of nobody.
_USERS = """
WITH RECURSIVE people (user) AS (SELECT min(user) FROM runs UNION ALL
    SELECT (SELECT min(user) FROM runs WHERE user > people.user) FROM people
    WHERE people.user IS NOT NULL)
SELECT user FROM people"""


def newest_finished(
    history: History, most: int, *, before_s: float = inf
) -> Iterator[dict[str, Any]]:
    """The last `most` jobs that ended (before that moment), the first of them first.

    Nobody's jobs hide others': of one user the newest share, the rest where others leave room.
    """
    ids = [run for _, run in sorted(fair_places(history, most, (before_s, LAST[1]), _FIRST))]
    for start in range(0, len(ids), _ROWS):
        page = ids[start : start + _ROWS]
        sql = f"SELECT {_NAMES} FROM runs r WHERE r.id IN ({', '.join('?' * len(page))})"
        by_id = {row["id"]: row for row in _rows(history, sql, *page)}
        yield from (by_id[run] for run in page if run in by_id)


def fair_places(history: History, most: int, high: Place, condition: str = "1") -> list[Place]:
    """Places of the newest runs below `high`, of each user a share first, then what is left over.

    `condition`: SQL on the run r. Users' runs are read as far as they are needed.
    """
    with explaining(history.path):
        users = history.conn.execute(_USERS).fetchall()
    last, page = last_id(history), min(most // len(users) + 1, _ROWS)
    sql = _OF_USER.format(condition)
    streams = [_places(history, sql, (user, last, page), high) for (user,) in users]
    shares = (islice(stream, most // POOL_USERS) for stream in streams)
    fair = list(islice(merge(*shares, reverse=True), most))
    return [*fair, *islice(merge(*streams, reverse=True), most - len(fair))]


def _places(
    history: History, sql: str, values: tuple[str | None, int, int], high: Place
) -> Iterator[Place]:
    """One user's runs, newest first, in pages: a cursor that waits would be one long read."""
    user, last, page = values
    while True:
        with explaining(history.path):
            bound = (user, *high, high[0], last, page)
            places: list[Place] = history.conn.execute(sql, bound).fetchall()
        yield from places
        if len(places) < page:
            return
        high = places[-1]


def finished_since(history: History, after_id: int) -> Iterator[dict[str, Any]]:
    """Jobs whose record came in after the run `after_id`, in that order."""
    sql = f"SELECT {_NAMES} FROM runs r WHERE id > ? AND end_s IS NOT NULL AND {_FIRST} ORDER BY id"
    yield from _rows(history, sql, after_id)


def _rows(history: History, sql: str, *values: float) -> Iterator[dict[str, Any]]:
    with explaining(history.path):
        cursor = history.conn.execute(sql, values)
        while rows := cursor.fetchmany(_ROWS):
            yield from (dict(zip(COLUMNS, row, strict=True)) for row in rows)
