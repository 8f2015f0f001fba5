"""One record into an open transaction: new, better than the one known, or known already."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.records import Level, LoaderRun, Outcome, Submission
from slurm_ext.history.ingest import energy, rows
from slurm_ext.history.ingest.decisions import claim_for_run, keys_for_run
from slurm_ext.history.ingest.final_state import final_state
from slurm_ext.history.store.names import KEY_COLUMNS, LOADER_COLUMNS, SACCT

_CHILDREN = ("counters", "corunners", "timeline", "probes", "loader_runs")
RECONCILE = "reconcile"
_RANKS = {"epilog": 2, "node": 1}  # who was nearer to the job's end; reconcile only saw it gone


class IngestResult(StrEnum):
    """What became of a record."""

    TAKEN = "taken"
    REPLACED = "replaced"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRows:
    """A record's rows, all checked before a transaction begins."""

    run: tuple[Any, ...]
    counters: list[tuple[tuple[str, str, str], float | None]]
    corunners: list[tuple[Any, ...]]
    timeline: bytes | None
    probes: bytes | None
    loader: LoaderRun | None
    loader_row: tuple[Any, ...] | None

    def __getitem__(self, column: str) -> Any:
        return self.run[rows.RUN_COLUMNS.index(column)]


def rows_of(record: Mapping[str, Any]) -> RecordRows:
    """Everything that the record will be in the database. Raises RecordError."""
    loader, counters = _evidence_in(record), rows.counter_rows(record)
    return RecordRows(
        run=(*rows.run_row(record), *energy.energy_of(counters)),
        counters=counters,
        corunners=rows.corunner_rows(record),
        timeline=rows.packed(record.get("timeline")),
        probes=rows.packed(record.get("probe")),
        loader=loader,
        loader_row=None if loader is None else rows.loader_row(loader),
    )


def _evidence_in(record: Mapping[str, Any]) -> LoaderRun | None:
    """What the probe measured; a summary is the user's own process's word.

    Where it is malformed, the run counts all the same and teaches nothing.
    """
    try:
        return loader_run(record)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, IndexError):
        return None


_RUN_NAMES = (*rows.RUN_COLUMNS, *energy.COLUMNS, "ingested_s")
_PLACES = ", ".join("?" * len(_RUN_NAMES))
_INSERT_RUN = f"INSERT INTO runs ({', '.join(_RUN_NAMES)}) VALUES ({_PLACES})"
_UPDATE_RUN = f"UPDATE runs SET {', '.join(f'{name} = ?' for name in _RUN_NAMES)} WHERE id = ?"
# A run that was imported while its own record was on its way would count twice.
SAME_END_S = 120.0  # sacct's and a node's clock of the same end
_DELETE_IMPORTED = (
    f"DELETE FROM runs WHERE job_id = ? AND cluster = ? AND source = '{SACCT}'"
    " AND abs(end_s - ?) < ?"
)
_LOADER_NAMES = ("run", *LOADER_COLUMNS, *KEY_COLUMNS)
_INSERT_LOADER = (
    f"INSERT INTO loader_runs ({', '.join(_LOADER_NAMES)})"
    f" VALUES ({', '.join('?' * len(_LOADER_NAMES))})"
)

_INSERT_CORUNNER = (
    f"INSERT OR REPLACE INTO corunners (run, {', '.join(rows.CORUNNER_COLUMNS)})"
    f" VALUES (?, {', '.join('?' * len(rows.CORUNNER_COLUMNS))})"
)


class Inserter:
    """Writes records within the caller's transaction; knows the counters' names by heart."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._names: dict[tuple[str, str, str], int] = {}

    def put(self, record: RecordRows, now_s: float) -> IngestResult:
        """Insert, replace or leave: a record's fate follows from its id and who wrote it."""
        found = self._known(record["record_id"])
        if found is None:
            if record["source"] != SACCT:
                self._conn.execute(_DELETE_IMPORTED, _same_end(record))
            run = self._conn.execute(_INSERT_RUN, (*record.run, now_s)).lastrowid
            self._evidence(run, record, now_s)
            return IngestResult.TAKEN
        run, source, state = found
        if _rank(record["source"]) <= _rank(source):
            if record["source"] == RECONCILE:
                self._set_state(run, final_state(state, source, record["state"]))
            return IngestResult.DUPLICATE
        for table in _CHILDREN:
            self._conn.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
        self._conn.execute(_UPDATE_RUN, (*record.run, now_s, run))
        if source == RECONCILE:
            self._set_state(run, final_state(record["state"], record["source"], state))
        self._evidence(run, record, now_s)
        return IngestResult.REPLACED

    def forget_names(self) -> None:
        """After a rollback: what was remembered may not be in the file."""
        self._names.clear()

    def _set_state(self, run: int | None, state: str) -> None:
        self._conn.execute("UPDATE runs SET state = ? WHERE id = ?", (state, run))

    def _known(self, record_id: str) -> tuple[int | None, str, str] | None:
        """The run of this record; a forgotten one counts as known and as best."""
        found: tuple[int, str, str] | None = self._conn.execute(
            "SELECT id, source, state FROM runs WHERE record_id = ?", (record_id,)
        ).fetchone()
        if (
            found is None
            and self._conn.execute(
                "SELECT 1 FROM forgotten WHERE record_id = ?", (record_id,)
            ).fetchone()
        ):
            return None, "epilog", Outcome.UNKNOWN
        return found

    def _evidence(self, run: int | None, record: RecordRows, now_s: float) -> None:
        conn = self._conn
        counters = [(run, self._name(name), value) for name, value in record.counters]
        conn.executemany("INSERT INTO counters VALUES (?, ?, ?)", counters)
        corunners = [(run, *corunner) for corunner in record.corunners]
        conn.executemany(_INSERT_CORUNNER, corunners)
        if record.timeline is not None:
            conn.execute("INSERT INTO timeline VALUES (?, ?)", (run, record.timeline))
        if record.probes is not None:
            conn.execute("INSERT INTO probes VALUES (?, ?)", (run, record.probes))
        claim_for_run(conn, record, now_s)
        if record.loader_row is not None:
            keys = rows.key_values(_keys(conn, record))
            conn.execute(_INSERT_LOADER, (run, *record.loader_row, *keys))

    def _name(self, name: tuple[str, str, str]) -> int:
        if name not in self._names:
            where = "name = ? AND unit = ? AND source = ?"
            self._conn.execute(
                "INSERT OR IGNORE INTO counter_names (name, unit, source) VALUES (?, ?, ?)", name
            )
            row = self._conn.execute(f"SELECT id FROM counter_names WHERE {where}", name)
            self._names[name] = row.fetchone()[0]
        return self._names[name]


def _keys(conn: sqlite3.Connection, record: RecordRows) -> Mapping[Level, int]:
    """The submission's keys where its proposal is here, else the two that the record itself has."""
    user, job_name = record["user"], record["job_name"]
    own = dict(keys_of(Submission(user_name=user or "", name=job_name or "")))
    if user is None:
        own.pop(Level.USER_NAME, None)
    return {**own, **keys_for_run(conn, record)}


def _same_end(record: RecordRows) -> tuple[Any, ...]:
    return record["job_id"], record["cluster"], record["end_s"], SAME_END_S


def _rank(source: str) -> int:
    return _RANKS.get(source, 0)
