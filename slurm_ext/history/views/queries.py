"""Queries for people; each result is made of plain dictionaries."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from slurm_ext.history.ingest.decisions import decision
from slurm_ext.history.ingest.rows import (
    CORUNNER_COLUMNS,
    SPLIT_COLUMNS,
    inflated,
    shared_resources,
)
from slurm_ext.history.store.names import KEY_COLUMNS, LOADER_COLUMNS, SACCT, SINCE
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

_LOADER = ", ".join(f"l.{name} AS loader_{name}" for name in LOADER_COLUMNS)
_KEYS = ", ".join(f"l.{name}" for name in KEY_COLUMNS)
_IMPORTED = f"r.source = '{SACCT}'"  # such runs may be of another cluster
_WIDE = f"SELECT r.*, {_LOADER}, {_KEYS} FROM runs r LEFT JOIN loader_runs l ON l.run = r.id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which runs; None is no condition. `since_s` is about the end, seconds since the epoch."""

    user: str | None = None
    partition: str | None = None
    since_s: float | None = None
    limit: int | None = None

    def sql(self) -> tuple[str, list[Any]]:
        """WHERE, newest end first, LIMIT; with the values to bind."""
        wanted = {
            "user = ?": self.user,
            "partition = ?": self.partition,
            "end_s >= ?": self.since_s,
        }
        values_by_test = {f"r.{test}": value for test, value in wanted.items() if value is not None}
        where = f" WHERE {' AND '.join(values_by_test)}" if values_by_test else ""
        limit = -1 if self.limit is None else self.limit
        return f"{where} ORDER BY r.end_s DESC, r.id DESC LIMIT ?", [
            *values_by_test.values(),
            limit,
        ]


def runs(history: History, chosen: Filter) -> Iterator[dict[str, Any]]:
    """Runs with their loader's evidence (`loader_...`), newest end first, streamed."""
    rest, values = chosen.sql()
    with explaining(history.path):
        yield from history.db.query(_WIDE + rest, values)


def count(history: History, chosen: Filter) -> int:
    """Count the runs that `runs` gives."""
    rest, values = chosen.sql()
    sql = f"SELECT count(*) FROM (SELECT 1 FROM runs r{rest})"
    with explaining(history.path):
        (number,) = history.conn.execute(sql, values).fetchone()
    return int(number)


def column_names(history: History) -> list[str]:
    """Names of what `runs` gives, in order, also where there is no run."""
    with explaining(history.path):
        cursor = history.conn.execute(f"{_WIDE} LIMIT 0")
    return [description[0] for description in cursor.description]


def job(history: History, job_id: int, task: int | None = None) -> dict[str, Any] | None:
    """Everything known of a job: its runs and its decision.

    `job_id` may be the first id of an array; with `task`, the runs are of that task alone. Where
    jobs of several clusters have the number, it is the newest of this one, then of the others.
    """
    which = "r.job_id = ? OR r.array_job_id = ?"
    values = [job_id, job_id]
    if task is not None:
        which, values = "r.array_job_id = ? AND r.array_task_id = ?", [job_id, task]
    with explaining(history.path):
        newest = f"SELECT r.cluster FROM runs r WHERE {which} ORDER BY {_IMPORTED}, r.end_s DESC"
        there = f"({which}) AND r.cluster = ({newest} LIMIT 1)"
        rest = f" WHERE {there} ORDER BY r.restart, r.node"
        rows = list(history.db.query(_WIDE + rest, values * 2))
        ledger = decision(history, job_id=job_id)
        if not rows and ledger is None:
            return None
        detailed = [{**run, **_evidence(history, run["id"])} for run in rows]
    return {"job_id": job_id, "runs": detailed, "decision": ledger}


def recorded_nodes(history: History, job_id: int, restart: int, started_s: float = 0.0) -> set[str]:
    """Nodes whose record of the run that started then is in, and tells whose job it was."""
    with explaining(history.path):
        rows = history.conn.execute(
            f"SELECT node FROM runs r WHERE job_id = ? AND restart = ? AND {SINCE}"
            f" AND (uid IS NOT NULL OR source <> 'node') AND NOT {_IMPORTED}",
            (job_id, restart, started_s),
        ).fetchall()
    return {node for (node,) in rows}


def epilogs_of(history: History, job_id: int, restart: int, started_s: float = 0.0) -> set[str]:
    """Nodes whose epilog reported the run that started then: they have nothing to say after it."""
    sql = f"SELECT node FROM runs WHERE job_id = ? AND restart = ? AND {SINCE}"
    with explaining(history.path):
        rows = history.conn.execute(f"{sql} AND source = 'epilog'", (job_id, restart, started_s))
        return {node for (node,) in rows}


def _evidence(history: History, run: int) -> dict[str, Any]:
    """A run's counters, co-runners, samples over time, the probe's summaries, its step's parts."""
    counters = (
        "SELECT name, unit, source, value FROM counters c JOIN counter_names n ON n.id = c.counter"
        " WHERE run = ? ORDER BY name, source"
    )
    return {
        "counters": list(history.db.query(counters, [run])),
        "corunners": _corunners(history, run),
        "timeline": _packed(history, "SELECT samples FROM timeline WHERE run = ?", run),
        "probe": _packed(history, "SELECT summaries FROM probes WHERE run = ?", run),
        "split": _split(history, run),
    }


def _split(history: History, run: int) -> dict[str, Any] | None:
    """Parts of the step of the ranks on this node, seconds of a batch; None: not measured."""
    sql = f"SELECT {', '.join(SPLIT_COLUMNS)} FROM step_splits WHERE run = ?"
    row = history.conn.execute(sql, (run,)).fetchone()
    return dict(zip(SPLIT_COLUMNS, row, strict=True)) if row else None


def _corunners(history: History, run: int) -> list[dict[str, Any]]:
    """As the record said them."""
    names = ", ".join(CORUNNER_COLUMNS)
    sql = f"SELECT {names} FROM corunners WHERE run = ? ORDER BY job_id"
    return [
        {"job_id": job_id, "overlap_s": overlap_s, "shared": shared_resources(*what)}
        for job_id, overlap_s, *what in history.conn.execute(sql, (run,))
    ]


def _packed(history: History, sql: str, run: int) -> Any:
    row = history.conn.execute(sql, (run,)).fetchone()
    return inflated(row[0]) if row else None


def column_kinds(history: History) -> dict[str, str]:
    """SQLite's type (INTEGER, REAL, TEXT) of each column that `runs` gives."""
    with explaining(history.path):
        kinds = {c.name: c.type for c in history.db.table("runs").columns}
        loader = {c.name: c.type for c in history.db.table("loader_runs").columns}
    of_loader = {f"loader_{name}": loader[name] for name in LOADER_COLUMNS}
    return {**kinds, **of_loader, **{name: loader[name] for name in KEY_COLUMNS}}
