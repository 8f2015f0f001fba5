"""Retention: old runs and their evidence are deleted, their record ids and ends stay.

A node that was cut off for years may deliver an old record again; it must not count twice. A
new run whose number Slurm gave again, having lost its state, starts after that end.
"""

from slurm_ext.history.store.names import OVER_S
from slurm_ext.history.store.store import History

_CHUNK = 1000  # a short write lock each, so that ingest never waits long

_BY_END = (
    "SELECT id FROM runs WHERE end_s < :before_s"
    " UNION ALL SELECT id FROM runs WHERE end_s IS NULL AND ingested_s < :before_s LIMIT :limit"
)
_KEEP = (
    "INSERT OR REPLACE INTO forgotten (record_id, over_s)"
    f" SELECT record_id, coalesce({OVER_S}, ingested_s) FROM runs WHERE id = ?"
)


def forget(history: History, before_s: float) -> int:
    """Remove runs that ended before `before_s` (seconds since the epoch), decisions and moves too.

    Returns how many runs went. Raises HistoryError; what is done by then stays done.
    """
    gone = 0
    while True:
        removed = _forget_chunk(history, before_s)
        gone += removed
        if removed < _CHUNK:
            break
    _forget_decisions(history, before_s)
    while _forget_moves(history, before_s) == _CHUNK:
        pass
    return gone


def _forget_chunk(history: History, before_s: float) -> int:
    with history.transaction() as conn:
        old = conn.execute(_BY_END, {"before_s": before_s, "limit": _CHUNK}).fetchall()
        conn.executemany(_KEEP, old)
        conn.executemany("DELETE FROM runs WHERE id = ?", old)
    return len(old)


def _forget_decisions(history: History, before_s: float) -> None:
    """Decisions whose job has no run left; a set-aside file stays, its note with it."""
    with history.transaction() as conn:
        conn.execute(
            "DELETE FROM decisions WHERE decided_s < ? AND NOT EXISTS"
            " (SELECT 1 FROM runs WHERE runs.decision = decisions.token)",
            (before_s,),
        )


def _forget_moves(history: History, before_s: float) -> int:
    with history.transaction() as conn:
        return conn.execute(
            "DELETE FROM moves WHERE id IN (SELECT id FROM moves WHERE at_s < ? LIMIT ?)",
            (before_s, _CHUNK),
        ).rowcount
