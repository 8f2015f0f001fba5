"""A long history read page by page, by the ends of runs, each page in a read of its own.

While one read lasts, SQLite cannot begin its write-ahead log again, which then grows with all that
is written meanwhile. So whoever reads much reads pages: between two of them the log can be folded.
Runs that came in after the first page are left out of all of them, so that the picture is of one
moment but for ends that were corrected since. Runs without an end are on no page.
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

RUNS = 2048  # of a page: some ten milliseconds of reading
Row = tuple[Any, ...]
Place = tuple[float, int]  # an end and a run's id
FIRST, LAST = (-inf, 0), (inf, 2**63 - 1)
ON_PAGE = (
    "r.end_s BETWEEN :low_s AND :high_s AND (r.end_s, r.id) >= (:low_s, :low_id)"
    " AND (r.end_s, r.id) < (:high_s, :high_id) AND r.id <= :last"
)
"""The condition of a page on runs, which the query calls r."""
_DOWN = (
    "SELECT end_s, id FROM runs WHERE (end_s, id) < (?, ?) AND end_s <= ?"
    " ORDER BY end_s DESC, id DESC LIMIT 1 OFFSET ?"
)
_UP = (
    "SELECT end_s, id FROM runs WHERE (end_s, id) >= (?, ?) AND end_s >= ?"
    " ORDER BY end_s, id LIMIT 1 OFFSET ?"
)


def newest_first(
    history: History, sql: str, low: Place = FIRST, high: Place = LAST
) -> Iterator[Row]:
    """Rows of `sql`, which has ON_PAGE and this order, for runs in [low, high)."""
    last = last_id(history)
    while high > low:
        place = _place(history, _DOWN, high, RUNS - 1)
        first = low if place is None else max(low, place)
        yield from _page(history, sql, _bounds(first, high, last))
        high = first


def oldest_first(
    history: History, sql: str, low: Place = FIRST, high: Place = LAST
) -> Iterator[Row]:
    """The same in the other order."""
    last = last_id(history)
    while low < high:
        place = _place(history, _UP, low, RUNS)
        end = high if place is None else min(high, place)
        yield from _page(history, sql, _bounds(low, end, last))
        low = end


def last_id(history: History) -> int:
    """The newest run's; 0 where there is none."""
    with explaining(history.path):
        (newest,) = history.conn.execute("SELECT max(id) FROM runs").fetchone()
    return newest or 0


def _place(history: History, sql: str, after: Place, behind: int) -> Place | None:
    with explaining(history.path):
        place: Place | None = history.conn.execute(sql, (*after, after[0], behind)).fetchone()
    return place


def _bounds(low: Place, high: Place, last: int) -> dict[str, float]:
    (low_s, low_id), (high_s, high_id) = low, high
    return {"low_s": low_s, "low_id": low_id, "high_s": high_s, "high_id": high_id, "last": last}


def _page(history: History, sql: str, values: Mapping[str, float]) -> list[Row]:
    """All at once: a cursor that waits for its reader would be one long read."""
    with explaining(history.path):
        return history.conn.execute(sql, values).fetchall()
