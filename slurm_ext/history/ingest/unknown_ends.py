"""Runs whose end nobody knew when they were recorded, and the word that came for it later."""

from collections.abc import Iterable
from dataclasses import dataclass

from slurm_ext.core.records import Outcome
from slurm_ext.history.store.names import SACCT
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

_OVER = "coalesce(end_s, start_s, ingested_s)"
_UNKNOWN = (
    f"SELECT id, job_id, restart, uid, coalesce(start_s, {_OVER}), {_OVER} FROM runs"
    f" WHERE id >= ? AND state = '{Outcome.UNKNOWN}' AND source <> '{SACCT}' AND {_OVER} >= ?"
    " ORDER BY id"
)
_RECENT = "SELECT min(id) FROM runs WHERE end_s >= ?"
_NEWEST = "SELECT coalesce(max(id), 0) FROM runs"
_SET = f"UPDATE runs SET state = ? WHERE id = ? AND state = '{Outcome.UNKNOWN}'"


@dataclass(frozen=True, slots=True)
class UnknownEnd:
    """A node's part of such a run; times are Unix seconds."""

    run: int
    job_id: int
    restart: int
    uid: int | None
    start_s: float
    end_s: float


def unknown_ends(history: History, first: int, since_s: float) -> list[UnknownEnd]:
    """Runs from row `first` on that ended since then. Raises HistoryError."""
    with explaining(history.path):
        rows = history.conn.execute(_UNKNOWN, (first, since_s)).fetchall()
    return [UnknownEnd(*row) for row in rows]


def rows_since(history: History, since_s: float) -> tuple[int, int]:
    """The first row of a run that ended since then, and the newest of all. Raises HistoryError."""
    with explaining(history.path):
        (newest,) = history.conn.execute(_NEWEST).fetchone()
        (first,) = history.conn.execute(_RECENT, (since_s,)).fetchone()
    return newest if first is None else first, newest


def tell_ends(history: History, states: Iterable[tuple[int, str]]) -> None:
    """Give rows their end, where none is known yet. Raises HistoryError."""
    with history.transaction() as conn:
        conn.executemany(_SET, [(state, run) for run, state in states])
