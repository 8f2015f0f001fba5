"""The part of a history that one user may see: own runs and decisions.

Temporary views stand before the tables of the same names, so that every query of the connection,
whoever wrote it, finds the user's rows alone; a table that nobody thought of is empty.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_ext.core.errors import RefusedError
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History, open_history

MOST_READ_S = 20.0  # for a user's question, whatever it is about
_STEPS = 20_000  # of SQLite's virtual machine between two looks at the clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """A user who looks, at own jobs or at everything."""

    user: str
    uid: int
    sees_all: bool = False  # operators, and whoever can read the file itself
    hides_others: bool = False  # Slurm's PrivateData: nothing of others, not even as figures

    def must_see(self, user: str | None) -> None:
        """Raise RefusedError unless the jobs of this user, or of all (None), may be seen."""
        if not self.sees_all and user != self.user:
            whose = "everybody's jobs" if user is None else f"{user}'s jobs"
            raise RefusedError(f"{whose} are not {self.user}'s: operators alone see others'")


def open_visible(path: Path, viewer: Viewer, *, busy_timeout_ms: int = 5000) -> History:
    """The history as `viewer` may see it, read-only. Raises HistoryError."""
    history = open_whole(path, busy_timeout_ms=busy_timeout_ms)
    try:
        if not viewer.sees_all:
            _hide(history, viewer)
    except BaseException:
        history.close()
        raise
    return history


def open_whole(path: Path, *, busy_timeout_ms: int = 5000) -> History:
    """The history with everybody's runs, read-only. Raises HistoryError."""
    return open_history(path, busy_timeout_ms=busy_timeout_ms, read_only=True)


def refuse_others(path: Path, viewer: Viewer, named: str) -> None:
    """Raise RefusedError where this job id or token is another user's.

    Where Slurm hides others' jobs it does nothing: it is unknown then, as if there were none.
    """
    if viewer.sees_all or viewer.hides_others:
        return
    with open_whole(path) as history, explaining(path):
        if history.conn.execute(_KNOWN, {"named": named}).fetchone():
            raise RefusedError(f"{named} is not {viewer.user}'s job: operators alone see others'")


_KNOWN = """
SELECT 1 FROM decisions WHERE token = :named OR job_id = CAST(:named AS INTEGER)
UNION ALL SELECT 1 FROM runs
WHERE job_id = CAST(:named AS INTEGER) OR array_job_id = CAST(:named AS INTEGER) LIMIT 1"""
_TABLES = """
SELECT name FROM main.sqlite_master
WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite@_%' ESCAPE '@'"""


def _hide(history: History, viewer: Viewer) -> None:
    with explaining(history.path):
        names = [str(name) for (name,) in history.conn.execute(_TABLES)]
        (user,) = history.conn.execute("SELECT quote(?)", (viewer.user,)).fetchone()
        for statement in _views(history, names, _of_user(user, int(viewer.uid))):
            history.conn.execute(statement)
    until_s = time.monotonic() + MOST_READ_S
    history.conn.set_progress_handler(lambda: time.monotonic() > until_s, _STEPS)


def _of_user(user: str, uid: int) -> str:
    """A name may be given to somebody else one day; accounting that was imported has no uid."""
    return f"o.user = {user} AND coalesce(o.uid, {uid}) = {uid}"


def _views(history: History, names: list[str], own: str) -> Iterator[str]:
    run = f"EXISTS (SELECT 1 FROM main.runs o WHERE o.id = t.run AND {own})"
    job = (
        f"EXISTS (SELECT 1 FROM main.runs o WHERE o.job_id = t.job_id AND {own})"
        f" OR EXISTS (SELECT 1 FROM main.decisions o WHERE o.job_id = t.job_id AND {own})"
    )
    decision = f"EXISTS (SELECT 1 FROM main.decisions o WHERE o.id = t.decision AND {own})"
    shown = {"moves": job, "outcomes": decision, "counter_names": "1"}
    for name in names:
        columns = _columns(history, name)
        if name in ("runs", "decisions"):
            yield f"CREATE TEMP VIEW {name} AS SELECT o.* FROM main.{name} o WHERE {own}"
            continue
        rows = shown.get(name, run if "run" in columns else "0")
        # Another user's job on the same node is told without its number.
        values = ", ".join(
            f"CASE WHEN {job} THEN t.job_id END AS job_id"
            if (name, column) == ("corunners", "job_id")
            else f"t.{column}"
            for column in columns
        )
        yield f"CREATE TEMP VIEW {name} AS SELECT {values} FROM main.{name} t WHERE {rows}"


def _columns(history: History, name: str) -> list[str]:
    sql = "SELECT name FROM pragma_table_info(?, 'main')"
    return [str(column) for (column,) in history.conn.execute(sql, (name,))]
