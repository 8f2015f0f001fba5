"""Predictions beside what runs achieved, and series of them that keep dlqueue from acting.

Every query here goes by an index from the newest on, user by user: nobody's outcomes hide others'.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, takewhile
from pathlib import Path
from typing import Any

from slurm_ext.core.records import Level
from slurm_ext.core.stats import POOL_USERS
from slurm_ext.history.store.reading import explaining

OF_USER = 256  # outcomes of one user that his scripts are judged by
MOST_WALKED = 4096  # decisions of one user that are looked at for them: many have no run yet
FEWEST_OF_ITS_OWN = 3  # runs with the very arguments; below, those with other numbers count too
BAD_IN_A_ROW = 3
SLOWER_IN_A_ROW = 2
_PAGE = 32  # decisions whose outcomes are read at once


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
    crowded: bool = False  # the world that they are of: beside others on its cores
    user: str = ""
    acted: bool  # the job ran as changed; otherwise the prediction is of the job as written
    as_written_low: float | None = None  # low end of the prediction for the job as written
    partition: str | None = None
    keys: tuple[int | None, int | None] = (None, None)  # script with its arguments, and without
    decision: int = 0  # the ledger's id: a larger one is newer

    @property
    def inside(self) -> bool:
        """True if the run was as fast as its interval said."""
        return self.low <= self.achieved <= self.high

    @property
    def slower(self) -> bool:
        """True if the job was changed, and ran slower than it was to be expected as written."""
        low = self.as_written_low
        return self.acted and low is not None and self.achieved < low


_COLUMNS = """
SELECT o.predicted, o.low, o.high, o.achieved, o.level, o.runs, o.factor, o.acted,
    coalesce(d.user, ''), o.before_low, d.partition, d.key_script_args, d.key_script, o.crowded,
    o.decision"""
# Of the table itself, for its index: where a user sees a part, `outcomes` is that part.
_OF = "INDEXED BY decisions_of_user"
_BELIEVED = "state = 'claimed' AND after_samples_per_s IS NOT NULL"
_WALKED = f"""
SELECT id FROM main.decisions {_OF} WHERE user = ? AND {_BELIEVED}
ORDER BY id DESC LIMIT {MOST_WALKED}"""
OUTCOMES_OF_USER = f"""{_COLUMNS} FROM main.decisions d {_OF}
CROSS JOIN outcomes o ON o.decision = d.id
WHERE d.user = ? AND d.state = 'claimed' AND d.after_samples_per_s IS NOT NULL
AND d.id BETWEEN ? AND ? ORDER BY d.id DESC"""
# One look-up for each user, however many decisions: SELECT DISTINCT would read them all.
_USERS = f"""
WITH RECURSIVE people (user) AS (
    SELECT min(user) FROM main.decisions {_OF} WHERE {_BELIEVED}
    UNION ALL SELECT (SELECT min(user) FROM main.decisions {_OF} WHERE {_BELIEVED}
        AND user > people.user) FROM people WHERE people.user IS NOT NULL)
SELECT user FROM people WHERE user IS NOT NULL"""
_USERS_NEWEST = f"""
SELECT user, (SELECT max(id) FROM main.decisions {_OF}
    WHERE {_BELIEVED} AND user = known.user) AS newest
FROM ({_USERS}) known ORDER BY newest DESC"""
_USERS_SINCE = """
SELECT DISTINCT d.user FROM loader_runs l CROSS JOIN runs r ON r.id = l.run
CROSS JOIN decisions d ON d.token = r.decision WHERE l.id > ? AND d.user IS NOT NULL"""
_ACHIEVED, _FIGURES, _DECISION = 3, 4, -1  # places in a row; the figures come first


def fair_outcomes(conn: sqlite3.Connection, path: Path, limit: int) -> list[Residual]:
    """At most `limit` of the newest outcomes; those of one user make way for those of others."""
    most = limit // POOL_USERS
    with explaining(path):
        users = conn.execute(_USERS_NEWEST).fetchall()
        first = _newest(conn, users, slice(0, most), limit)
        left = limit - len(first)
        return [*first, *_newest(conn, users, slice(most, limit), left)] if left else first


def users_since(conn: sqlite3.Connection, path: Path, last_id: int) -> list[str]:
    """Users with outcomes whose loader_runs are newer than this id; everybody's for id 0."""
    with explaining(path):
        users = conn.execute(_USERS_SINCE, (last_id,)) if last_id else conn.execute(_USERS)
        return [user for (user,) in users]


def outcomes_of_user(
    conn: sqlite3.Connection, path: Path, user: str, limit: int = OF_USER
) -> list[Residual]:
    """One user's newest outcomes, newest first; a decision counts once. Raises HistoryError."""
    with explaining(path):
        return list(islice(_of_user(conn, user), limit))


def predicted_of(
    conn: sqlite3.Connection, path: Path, decision: int
) -> dict[int, dict[str, float | None]]:
    """By run: low, high and what was achieved, of one decision (its id). Raises HistoryError.

    `beside`: True where that is of crowded cores, and False where of its own; None: of any.
    """
    sql = (
        "SELECT o.run, o.low, o.high, o.achieved, iif(d.crowded IS NULL, NULL, o.crowded)"
        " FROM outcomes o CROSS JOIN decisions d ON d.id = o.decision WHERE o.decision = ?"
    )
    with explaining(path):
        rows = conn.execute(sql, (decision,)).fetchall()
    names = ("low", "high", "achieved", "beside")
    return {run: dict(zip(names, values, strict=True)) for run, *values in rows}


def series_by_key(newest: Iterable[Residual]) -> dict[int, list[Residual]]:
    """One user's outcomes by what was run, newest first.

    A script with its very arguments stands for itself where enough of its runs are known; else the
    script has to, with whatever numbers it ran.
    """
    exact: dict[int, list[Residual]] = {}
    alike: dict[int, list[Residual]] = {}
    for outcome in newest:
        for by_key, key in zip((exact, alike), outcome.keys, strict=True):
            if key is not None:
                by_key.setdefault(key, []).append(outcome)
    own = {key: series for key, series in exact.items() if len(series) >= FEWEST_OF_ITS_OWN}
    return alike | own


def why_stopped(series: Sequence[Residual]) -> str:
    """Return the reason in a series, newest first, not to act; empty: there is none.

    Three outcomes in a row that were not as predicted, on either side: the model does not know the
    job. Two of them that the change made slower are enough. The first good one ends it.
    """
    bad = list(takewhile(lambda outcome: outcome.slower or not outcome.inside, series))
    if sum(outcome.slower for outcome in bad) >= SLOWER_IN_A_ROW:
        return "its last changed runs were slower than as written"
    if len(bad) >= BAD_IN_A_ROW:
        return f"its last {len(bad)} runs were not as predicted"
    return ""


def stopped_scripts(conn: sqlite3.Connection, path: Path) -> dict[tuple[str, int | None], str]:
    """By user and script (its key): why nothing acts on it now. Raises HistoryError."""
    stopped: dict[tuple[str, int | None], str] = {}
    for user in users_since(conn, path, 0):
        for series in series_by_key(outcomes_of_user(conn, path, user)).values():
            if why := why_stopped(series):
                stopped[user, series[0].keys[1]] = why
    return stopped


def _of_user(conn: sqlite3.Connection, user: str) -> Iterator[Residual]:
    """One for each decision: of its runs (nodes, restarts) the middle one."""
    for _, runs in groupby(_rows_of_user(conn, user), key=lambda row: row[_DECISION]):
        usable = [row for row in runs if None not in row[:_FIGURES] and row[_ACHIEVED] > 0]
        if usable:
            usable.sort(key=lambda row: float(row[_ACHIEVED]))
            yield _residual(usable[len(usable) // 2])


def _rows_of_user(conn: sqlite3.Connection, user: str) -> Iterator[tuple[Any, ...]]:
    """Newest first, in pages: while a cursor waits, the write-ahead log cannot begin again."""
    walked = conn.execute(_WALKED, (user,)).fetchall()
    for start in range(0, len(walked), _PAGE):
        page = walked[start : start + _PAGE]
        yield from conn.execute(OUTCOMES_OF_USER, (user, *page[-1], *page[0])).fetchall()


def _newest(
    conn: sqlite3.Connection, users: Iterable[tuple[str, int]], part: slice, limit: int
) -> list[Residual]:
    """The newest of a part of each user's outcomes; `users`: with their newest decision, sorted."""
    residuals: list[Residual] = []
    for user, newest in users:
        if len(residuals) >= limit and newest < residuals[-1].decision:
            break
        residuals += islice(_of_user(conn, user), part.start, part.stop)
        residuals.sort(key=lambda residual: -residual.decision)
        del residuals[limit:]
    return residuals


def _residual(row: tuple[Any, ...]) -> Residual:
    predicted, low, high, achieved, level, runs, factor, acted, user, *more = row
    as_written_low, partition, exact, script, crowded, decision = more
    return Residual(
        predicted=predicted,
        low=low,
        high=high,
        achieved=achieved,
        level=Level(level),
        runs=runs,
        factor=factor,
        crowded=bool(crowded),
        acted=bool(acted),
        user=user,
        as_written_low=as_written_low,
        partition=partition,
        keys=(exact, script),
        decision=decision,
    )
