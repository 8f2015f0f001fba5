"""history.db's tables, as named migrations; each is applied with its own record in one transaction.

A migration that was shipped is never edited: the next change is a new function at the end. Units
stand in the column names; NULL is "not set" or "not measured", never zero.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_ext.core.errors import HistoryError
from slurm_ext.history.store.column_types import check_types, checked_tables, refuse_others
from slurm_ext.history.store.first_tables import OF_RUN, first_tables

if TYPE_CHECKING:
    from sqlite_utils import Database

Migration = Callable[["Database"], None]


def whole_runs(db: "Database") -> None:
    """Add the work of a run and its GPU: NULL for runs that were recorded before."""
    for column in (
        "ranks INTEGER",
        "nodes INTEGER",
        "run_samples REAL",
        "outside_s REAL",
        "gpu_model TEXT",
    ):
        db.execute(f"ALTER TABLE loader_runs ADD COLUMN {column}")


def queued_runs(db: "Database") -> None:
    """Add waiting for cores and the size of a sample: NULL for runs before."""
    for column in ("fetch_queued_s", "step_queued_s", "main_queued_s", "sample_bytes"):
        db.execute(f"ALTER TABLE loader_runs ADD COLUMN {column} REAL")


def doubted_runs(db: "Database") -> None:
    """Add the reason why a run's curve predicts no other shape (core/unsupported_loader.py)."""
    db.execute("ALTER TABLE loader_runs ADD COLUMN doubt INTEGER")


def shared_decisions(db: "Database") -> None:
    """Add the decision on sharing a GPU, as JSON; NULL: there was none."""
    db.execute("ALTER TABLE decisions ADD COLUMN sharing TEXT")


def shared_places(db: "Database") -> None:
    """Add the resources that a run had in common with each other one; NULL: not looked at.

    `shared_gpus` are UUIDs (or Slurm's own numbers) joined by commas, empty where there was none.
    """
    for column in ("shared_cpus INTEGER", "shared_sockets INTEGER", "shared_gpus TEXT"):
        db.execute(f"ALTER TABLE corunners ADD COLUMN {column}")


def ledger_of_moves(db: "Database") -> None:
    """Add the actions of cluster loops (core/actions.py); `before`, `after` are JSON."""
    db.execute(
        "CREATE TABLE moves (id INTEGER PRIMARY KEY, move_id TEXT NOT NULL UNIQUE,"
        " at_s REAL NOT NULL, kind TEXT NOT NULL, mode TEXT NOT NULL, subject TEXT NOT NULL,"
        " job_id INTEGER, done TEXT NOT NULL, why TEXT NOT NULL,"
        " before TEXT NOT NULL, after TEXT NOT NULL, outcome TEXT)"
    )
    db.execute("CREATE INDEX moves_job ON moves (job_id) WHERE job_id IS NOT NULL")
    db.execute("CREATE INDEX moves_at ON moves (at_s)")


def energy_of_runs(db: "Database") -> None:
    """Joules of a run's GPUs and of its node (energy.py), and what GPUs the node has.

    Runs that were recorded before get theirs from their counters; their node's GPUs stay unknown.
    """
    for column in ("node_gpu_model TEXT", "gpu_energy_j REAL", "node_energy_j REAL"):
        db.execute(f"ALTER TABLE runs ADD COLUMN {column}")
    for column, names in (
        ("gpu_energy_j", "'gpu_energy'"),
        ("node_energy_j", "'node_energy_cpu', 'node_energy_dram'"),
    ):
        db.execute(
            f"UPDATE runs SET {column} = e.joules FROM (SELECT c.run, sum(c.value) AS joules"
            " FROM counters c JOIN counter_names n ON n.id = c.counter"
            f" WHERE n.name IN ({names}) AND c.value >= 0 GROUP BY c.run) e WHERE e.run = runs.id"
        )


def mps_of_runs(db: "Database") -> None:
    """Add a run's share of MPS: GPU, limits, faults, as the record's JSON; NULL: none."""
    db.execute("ALTER TABLE runs ADD COLUMN mps TEXT")


def elastic_decisions(db: "Database") -> None:
    """Add DLQUEUE_ELASTIC of a submission's environment; NULL: not set, or before."""
    db.execute("ALTER TABLE decisions ADD COLUMN elastic TEXT")
    db.execute("CREATE INDEX decisions_elastic ON decisions (job_id) WHERE elastic IS NOT NULL")


def view_of_outcomes(db: "Database") -> None:
    """Decisions with what their jobs' runs achieved: one row a run.

    `predicted`, `low`, `high` are of the shape that ran; rates are samples/s of one process.
    """
    _create_outcomes(db, "l.samples_per_s")


def _create_outcomes(db: "Database", achieved: str) -> None:
    acted = "(d.mode = 'act' AND d.action = 'change' AND NOT d.holdout)"
    predicted = ", ".join(
        f"iif({acted}, d.after_{name}, d.before_{name}) AS {alias}"
        for name, alias in (("samples_per_s", "predicted"), ("low", "low"), ("high", "high"))
    )
    db.execute(
        "CREATE VIEW outcomes AS SELECT d.id AS decision, d.token, d.mode, d.action, d.holdout,"
        f" {acted} AS acted, d.level, d.runs, d.factor, d.before_samples_per_s,"
        f" d.after_samples_per_s, {predicted}, {achieved} AS achieved, r.id AS run, r.end_s"
        " FROM decisions d INDEXED BY decisions_believed"
        " CROSS JOIN runs r ON r.decision = d.token CROSS JOIN loader_runs l ON l.run = r.id"
        " WHERE d.state = 'claimed' AND d.after_samples_per_s IS NOT NULL"
        " AND coalesce(r.array_job_id, r.job_id) = d.job_id"
    )


def own_decisions(db: "Database") -> None:
    """Strike out tokens of other users' decisions, which runs of before may name."""
    db.execute(
        "UPDATE runs SET decision = NULL WHERE EXISTS"
        " (SELECT 1 FROM decisions d WHERE d.token = runs.decision AND d.uid <> runs.uid)"
    )


def bounded_set_aside(db: "Database") -> None:
    """Add the user whose record was set aside, and how much was dropped beyond the bounds."""
    db.execute("ALTER TABLE set_aside ADD COLUMN uid INTEGER")
    db.execute(
        "CREATE TABLE set_aside_dropped (records INTEGER NOT NULL, size_bytes INTEGER NOT NULL)"
    )
    db.execute("INSERT INTO set_aside_dropped VALUES (0, 0)")


def typed_columns(db: "Database") -> None:
    """Let each column hold values of its type only: a reader stops at one of another."""
    for table in TABLES:
        check_types(db, table)


def honest_runs(db: "Database") -> None:
    """Add what tells a run's evidence from another's: NULL for runs before.

    The job's whole rate, its workers' start, why the probe left them alone, cores in use, threads,
    whether it trained on the CPU, and its data.
    """
    for column in (
        "whole_samples_per_s REAL",
        "startup_s REAL",
        "refused INTEGER",
        "used_cores REAL",
        "threads INTEGER",
        "on_cpu INTEGER",
        "data_key INTEGER",
    ):
        db.execute(f"ALTER TABLE loader_runs ADD COLUMN {column}")
    check_types(db, "loader_runs")
    # "The newest outcomes of a user" is one short range.
    db.execute(
        "CREATE INDEX decisions_of_user ON decisions (user)"
        " WHERE state = 'claimed' AND after_samples_per_s IS NOT NULL"
    )
    # One process's share of the whole job's rate: what predictions are of (whole_run.py).
    db.execute("DROP VIEW outcomes")
    _create_outcomes(db, "coalesce(l.whole_samples_per_s / nullif(l.ranks, 0), l.samples_per_s)")


def split_steps(db: "Database") -> None:
    """Add the parts of a run's step, seconds of a batch (core/stalls/step_split.py)."""
    columns = ", ".join(f"{name}_s REAL" for name in _STEP_PARTS)
    db.execute(
        f"CREATE TABLE step_splits (run {OF_RUN}, {columns}, au REAL, rank_skew_s REAL,"
        " slow_rank INTEGER, ranks INTEGER, PRIMARY KEY (run))"
    )
    check_types(db, "step_splits")


_STEP_PARTS = (
    "computing",
    "communicating",
    "slow_rank",
    "fetch",
    "preparation",
    "cores",
    "starting",
    "other",
)


def crowded_steps(db: "Database") -> None:
    """Add the step's own waiting for a core, in `other_s` of runs before."""
    db.execute("ALTER TABLE step_splits ADD COLUMN crowded_s REAL")
    check_types(db, "step_splits")


def ranks_of_decisions(db: "Database") -> None:
    """Add the number of training processes that a prediction was multiplied by; NULL: before."""
    db.execute("ALTER TABLE decisions ADD COLUMN ranks INTEGER")
    check_types(db, "decisions")


def found_runs(db: "Database") -> None:
    """Find a user's newest runs and an array's tasks without reading all runs."""
    db.execute("CREATE INDEX runs_user_end ON runs (user, end_s)")
    db.execute("CREATE INDEX runs_array ON runs (array_job_id) WHERE array_job_id IS NOT NULL")


def bucket_runs(db: "Database") -> None:
    """Add evidence of gradients' buckets (core/stalls/sync_run.py), and decisions on them, as JSON.

    `gradients` are deflated JSON: bytes of buckets, and when which gradients were ready.
    """
    db.execute(
        f"CREATE TABLE sync_runs (id INTEGER PRIMARY KEY AUTOINCREMENT, run {OF_RUN} UNIQUE,"
        " signature TEXT, ranks INTEGER, nodes INTEGER, backend TEXT, accelerator TEXT,"
        " takes_lists INTEGER, caps TEXT, left_alone TEXT, user_caps INTEGER, comm_hook TEXT,"
        " step_s REAL, waiting REAL, syncs REAL, exposed_s REAL, gradients BLOB)"
    )
    check_types(db, "sync_runs")
    db.execute("ALTER TABLE decisions ADD COLUMN buckets TEXT")
    check_types(db, "decisions")


def lighter_checks(db: "Database") -> None:
    """Check types with fewer steps of SQLite; what is there was checked as it came."""
    for table in checked_tables(db):
        refuse_others(db, table)


def two_worlds(db: "Database") -> None:
    """Add the world that a run was in, and rates and bounds of a decision in the other one.

    Of a run, `crowded` is 1 beside others on its cores, 0 on cores of its own, and NULL where its
    own processes may have crowded them. Of a decision it is the world of its other columns, and
    NULL where it knew one.
    """
    db.execute("ALTER TABLE loader_runs ADD COLUMN crowded INTEGER")
    db.execute("ALTER TABLE decisions ADD COLUMN crowded INTEGER")
    db.execute("ALTER TABLE decisions ADD COLUMN factor_beside REAL")
    for name in ("samples_per_s", "low", "high"):
        for when in ("before", "after"):
            db.execute(f"ALTER TABLE decisions ADD COLUMN {when}_else_{name} REAL")
    check_types(db, "loader_runs")
    check_types(db, "decisions")
    db.execute("DROP VIEW outcomes")
    _create_outcomes_of_worlds(db)


def _create_outcomes_of_worlds(db: "Database") -> None:
    """Judge each run by the promise for the world that it met; where nobody knows, by the nearer.

    `before_*`, `after_*`, `predicted`, `low`, `high` and `factor` are that world's.
    """
    achieved = "coalesce(l.whole_samples_per_s / nullif(l.ranks, 0), l.samples_per_s)"
    acted = "(d.mode = 'act' AND d.action = 'change' AND NOT d.holdout)"
    ran = f"iif({acted}, d.after_samples_per_s * d.after_else_samples_per_s,"
    ran += " d.before_samples_per_s * d.before_else_samples_per_s)"
    crowded = f"coalesce(l.crowded, {achieved} * {achieved} < {ran})"
    there = f"({crowded} <> d.crowded)"  # NULL, and so false, where one world was told

    def of(when: str, name: str) -> str:
        return f"iif({there}, d.{when}_else_{name}, d.{when}_{name})"

    predicted = ", ".join(
        f"iif({acted}, {of('after', name)}, {of('before', name)}) AS {alias}"
        for name, alias in (("samples_per_s", "predicted"), ("low", "low"), ("high", "high"))
    )
    as_written = ", ".join(f"{of('before', n)} AS before_{n}" for n in ("samples_per_s", "low"))
    beside = f"coalesce({there} <> d.crowded, 0)"
    db.execute(
        "CREATE VIEW outcomes AS SELECT d.id AS decision, d.token, d.mode, d.action, d.holdout,"
        f" {acted} AS acted, d.level, d.runs, iif({beside}, d.factor_beside, d.factor) AS factor,"
        f" {beside} AS crowded, {as_written}, {of('after', 'samples_per_s')} AS"
        f" after_samples_per_s, {predicted}, {achieved} AS achieved, r.id AS run, r.end_s"
        " FROM decisions d INDEXED BY decisions_believed"
        " CROSS JOIN runs r ON r.decision = d.token CROSS JOIN loader_runs l ON l.run = r.id"
        " WHERE d.state = 'claimed' AND d.after_samples_per_s IS NOT NULL"
        " AND coalesce(r.array_job_id, r.job_id) = d.job_id"
    )


def parts_of_nodes(db: "Database") -> None:
    """Let CPUs and memory of a job on several nodes be those on each one, as fields.py has them.

    Nodes wrote those of the whole job; who had more of them than others is not known any more.
    """
    db.execute(
        "UPDATE runs SET cpus = max(1, cpus / num_nodes), mem_bytes = mem_bytes / num_nodes"
        " WHERE source IN ('epilog', 'node') AND num_nodes > 1"
    )


def ends_of_forgotten_runs(db: "Database") -> None:
    """Add the end of a run that retention removed: a later start is of a number given again.

    Of those removed before, it was before now.
    """
    db.execute("ALTER TABLE forgotten ADD COLUMN over_s REAL")
    db.execute("UPDATE forgotten SET over_s = ?", (time.time(),))
    check_types(db, "forgotten")


TABLES = (
    "runs",
    "loader_runs",
    "counter_names",
    "counters",
    "corunners",
    "timeline",
    "probes",
    "decisions",
    "moves",
    "journals",
    "set_aside",
    "set_aside_dropped",
    "forgotten",
)
"""Tables of before `typed_columns`, which checks their values; later ones see to it themselves."""

MIGRATIONS: tuple[Migration, ...] = (
    first_tables,
    whole_runs,
    queued_runs,
    doubted_runs,
    shared_decisions,
    shared_places,
    ledger_of_moves,
    energy_of_runs,
    mps_of_runs,
    elastic_decisions,
    view_of_outcomes,
    own_decisions,
    bounded_set_aside,
    typed_columns,
    honest_runs,
    split_steps,
    ranks_of_decisions,
    crowded_steps,
    found_runs,
    bucket_runs,
    lighter_checks,
    two_worlds,
    parts_of_nodes,
    ends_of_forgotten_runs,
)


def pending(applied: Iterable[str], path: Path) -> list[Migration]:
    """Migrations still to be made. Raises HistoryError where the file knows more than we do."""
    done = set(applied)
    unknown = sorted(done - {m.__name__ for m in MIGRATIONS})
    if unknown:
        raise HistoryError(
            f"{path} was written by a newer dlqueue (it has {', '.join(unknown)});"
            " upgrade dlqueue, or restore the copy made before that upgrade"
        )
    return [migration for migration in MIGRATIONS if migration.__name__ not in done]


def applied(conn: sqlite3.Connection) -> list[str]:
    """Names of the migrations that the file has seen, in order; none for a new file."""
    if not conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'migrations'").fetchone():
        return []
    return [
        name for (name,) in conn.execute("SELECT name FROM migrations ORDER BY rowid").fetchall()
    ]


def apply(db: "Database", migration: Migration) -> None:
    """One migration and its record; the caller holds the transaction."""
    db.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_s REAL)")
    migration(db)
    db.table("migrations").insert({"name": migration.__name__, "applied_s": time.time()})
