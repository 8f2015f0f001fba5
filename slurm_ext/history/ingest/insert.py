"""One record into an open transaction: new, better than the one known, or known already."""

import sqlite3
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from slurm_ext.core.job_keys import record_keys
from slurm_ext.core.records import Outcome
from slurm_ext.core.stalls.own_queue import crowded
from slurm_ext.history.ingest.claims import claim_for_run
from slurm_ext.history.ingest.rows import (
    CORUNNER_COLUMNS,
    RUN_COLUMNS,
    SPLIT_COLUMNS,
    RecordRows,
    RunRecord,
    loader_values,
    split_values,
    sync_values,
)
from slurm_ext.history.store.names import (
    KEY_COLUMNS,
    LOADER_COLUMNS,
    NEXT_S,
    OVER_S,
    SACCT,
    SINCE,
    STORED_LEVELS,
    SYNC_COLUMNS,
)
from slurm_ext.history.store.store import History

_CHILDREN = (
    "counters",
    "corunners",
    "timeline",
    "probes",
    "loader_runs",
    "step_splits",
    "sync_runs",
)
RECONCILE = "reconcile"
_CLOCKS_S = 300.0  # munge refuses messages between clocks that differ more
REFUSED = (
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.IntegrityError,
    sqlite3.DataError,
    OverflowError,
    UnicodeError,
)
"""SQLite's refusals of a value, not of its file: the record's fault."""
_RANKS = {"epilog": 2, "node": 1}  # nearer to the job's end; reconcile only saw it gone


class IngestResult(StrEnum):
    """Result of one record's ingest."""

    TAKEN = "taken"
    REPLACED = "replaced"
    DUPLICATE = "duplicate"


_RUN_NAMES = (*RUN_COLUMNS, "ingested_s")
_PLACES = ", ".join("?" * len(_RUN_NAMES))
_INSERT_RUN = f"INSERT INTO runs ({', '.join(_RUN_NAMES)}) VALUES ({_PLACES})"
_UPDATE_RUN = f"UPDATE runs SET {', '.join(f'{name} = ?' for name in _RUN_NAMES)} WHERE id = ?"
# A run that was imported while its own record was on its way would count twice.
SAME_END_S = 120.0  # sacct's and a node's clock of the same end
_DELETE_IMPORTED = (
    f"DELETE FROM runs WHERE job_id = ? AND cluster = ? AND source = '{SACCT}'"
    " AND abs(end_s - ?) < ?"
)
_OTHER_NODES = (
    "SELECT state FROM runs WHERE job_id = ? AND restart = ? AND cluster = ? AND id <> ?"
    f" AND state <> '{Outcome.UNKNOWN}' ORDER BY id LIMIT 1"
)
_LOADER_NAMES = ("run", *LOADER_COLUMNS, "crowded", *KEY_COLUMNS)
_INSERT_LOADER = (
    f"INSERT INTO loader_runs ({', '.join(_LOADER_NAMES)})"
    f" VALUES ({', '.join('?' * len(_LOADER_NAMES))})"
)
_INSERT_SPLIT = (
    f"INSERT INTO step_splits (run, {', '.join(SPLIT_COLUMNS)})"
    f" VALUES (?, {', '.join('?' * len(SPLIT_COLUMNS))})"
)
_INSERT_SYNC = (
    f"INSERT INTO sync_runs (run, {', '.join(SYNC_COLUMNS)}, gradients)"
    f" VALUES (?, {', '.join('?' * len(SYNC_COLUMNS))}, ?)"
)

_INSERT_CORUNNER = (
    f"INSERT OR REPLACE INTO corunners (run, {', '.join(CORUNNER_COLUMNS)})"
    f" VALUES (?, {', '.join('?' * len(CORUNNER_COLUMNS))})"
)


# A run that retention removed is known, and nothing is better than its record was.
_KNOWN = (
    f"SELECT id, source, uid, state, {OVER_S} FROM runs WHERE record_id = ?1 UNION ALL"
    f" SELECT NULL, 'epilog', 0, '{Outcome.UNKNOWN}', over_s FROM forgotten WHERE record_id = ?1"
)


@dataclass(slots=True)
class Inserter:
    """Writes records within the caller's transaction; remembers the ids of counters' names."""

    _conn: sqlite3.Connection
    _names: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def put(self, rows: RecordRows, now_s: float) -> IngestResult:
        """Insert, replace or leave a record, by its id and by its witness."""
        new = rows.run
        row = self._known(new)
        if row is None:
            if new.source != SACCT:
                same_end = (new.job_id, new.cluster, new.end_s, SAME_END_S)
                self._conn.execute(_DELETE_IMPORTED, same_end)
            run = self._conn.execute(_INSERT_RUN, (*new, now_s)).lastrowid
            self._take_jobs_end(run, new)
            self._evidence(run, rows, now_s)
            return IngestResult.TAKEN
        run, source, uid, state, over_s = row
        if _is_next(new, over_s, state):  # Slurm forgot the run before
            self._replace(run, rows, now_s)
            return IngestResult.REPLACED
        if _rank(new.source, new.uid) <= _rank(source, uid):
            if new.source == RECONCILE:
                self._set_state(run, final_state(state, source, new.state))
            return IngestResult.DUPLICATE
        self._replace(run, rows, now_s)
        if source == RECONCILE:
            self._set_state(run, final_state(new.state, new.source, state))
        return IngestResult.REPLACED

    def _known(self, new: RunRecord) -> Any:
        """The row of _KNOWN with the record's name; none where it is of a run after a forgotten."""
        row = self._conn.execute(_KNOWN, (new.record_id,)).fetchone()
        if row is None or row[0] is not None or not _is_next(new, row[4], row[3]):
            return row
        self._conn.execute("DELETE FROM forgotten WHERE record_id = ?", (new.record_id,))
        return None

    def _replace(self, run: int, rows: RecordRows, now_s: float) -> None:
        for table in _CHILDREN:
            self._conn.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
        self._conn.execute(_UPDATE_RUN, (*rows.run, now_s, run))
        self._evidence(run, rows, now_s)

    def forget_names(self) -> None:
        """Forget all ids: after a rollback they may not be in the file."""
        self._names.clear()

    def _take_jobs_end(self, run: int | None, new: RunRecord) -> None:
        """The end that is known from the job's other nodes: only its first one asks Slurm.

        A record that comes after Slurm was compared with the history is not corrected again.
        """
        if new.num_nodes == 1:
            return
        row = self._conn.execute(
            _OTHER_NODES, (new.job_id, new.restart, new.cluster, run)
        ).fetchone()
        if row is not None:
            self._set_state(run, final_state(new.state, new.source, row[0]))

    def _set_state(self, run: int | None, state: str) -> None:
        self._conn.execute("UPDATE runs SET state = ? WHERE id = ?", (state, run))

    def _evidence(self, run: int | None, rows: RecordRows, now_s: float) -> None:
        conn, names = self._conn, self._names
        counters = [
            (run, names.get(name) or self._name(name), value)
            for name, value in rows.counters.items()
        ]
        conn.executemany("INSERT INTO counters VALUES (?, ?, ?)", counters)
        conn.executemany(_INSERT_CORUNNER, [(run, *corunner) for corunner in rows.corunners])
        if rows.timeline is not None:
            conn.execute("INSERT INTO timeline VALUES (?, ?)", (run, rows.timeline))
        if rows.probes is not None:
            conn.execute("INSERT INTO probes VALUES (?, ?)", (run, rows.probes))
        if rows.split is not None:
            conn.execute(_INSERT_SPLIT, (run, *split_values(rows.split)))
        if rows.sync is not None:
            conn.execute(_INSERT_SYNC, (run, *sync_values(rows.sync)))
        submitted = claim_for_run(conn, rows.run, now_s)
        if rows.loader is not None:
            keys = {**record_keys(rows.run.user, rows.run.job_name), **submitted}
            met = crowded(rows.loader)
            values = (run, *loader_values(rows.loader), met, *map(keys.get, STORED_LEVELS))
            conn.execute(_INSERT_LOADER, values)

    def _name(self, name: tuple[str, str, str]) -> int:
        """Id of a counter's name, unit and source, entered where it is new."""
        self._conn.execute(
            "INSERT OR IGNORE INTO counter_names (name, unit, source) VALUES (?, ?, ?)", name
        )
        where = "name = ? AND unit = ? AND source = ?"
        row = self._conn.execute(f"SELECT id FROM counter_names WHERE {where}", name)
        self._names[name] = number = row.fetchone()[0]
        return int(number)


def _is_next(new: RunRecord, over_s: float | None, state: str) -> bool:
    """True if a node or Slurm tells of a run that started after the known one had ended.

    A node's records are of one clock; Slurm's may differ from it by as much as munge lets pass. But
    a requeued run is never the one that ended for Slurm: it counts that as another.
    """
    if new.source == SACCT or new.start_s is None or over_s is None:
        return False
    sure = new.source != RECONCILE or state == Outcome.REQUEUED
    return bool(new.start_s > over_s + (NEXT_S if sure else _CLOCKS_S))


def _rank(source: str, uid: int | None) -> int:
    """A node whose notes were torn does not know whose job it was: Slurm's word says more."""
    return -1 if source == "node" and uid is None else _RANKS.get(source, 0)


FROM_OUTSIDE = frozenset(
    {Outcome.CANCELLED, Outcome.TIMEOUT, Outcome.NODE_FAIL, Outcome.OUT_OF_MEMORY}
)


_SURE = "epilog"


def final_state(seen: str, source: str, slurm: str) -> str:
    """The state to keep: `seen` and its source as recorded, `slurm` as Slurm finally reports it."""
    if slurm == Outcome.UNKNOWN or seen == Outcome.REQUEUED:
        return seen
    if source == _SURE and seen != Outcome.UNKNOWN and slurm not in FROM_OUTSIDE:
        return seen
    return slurm


def apply_final_state(
    history: History, job_id: int, restart: int, started_s: float = 0.0, *, slurm: str
) -> int:
    """Correct every node's run that started then by Slurm's final state; how many changed.

    Imported ends are Slurm's word already, and may be of another cluster. Raises HistoryError.
    """
    with history.transaction() as conn:
        found = conn.execute(
            f"SELECT id, state, source FROM runs WHERE job_id = ? AND restart = ? AND {SINCE}"
            " AND source <> ?",
            (job_id, restart, started_s, SACCT),
        ).fetchall()
        stands = [(final_state(seen, source, slurm), run, seen) for run, seen, source in found]
        changed = [(state, run) for state, run, seen in stands if state != seen]
        conn.executemany("UPDATE runs SET state = ? WHERE id = ?", changed)
    return len(changed)
