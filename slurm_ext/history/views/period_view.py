"""The runs of a period with what was measured of each, one narrow row a run, for many questions.

They are a temporary table of the connection (`period_runs`): a report sends thirty queries to it,
and counters, which are thirty rows a run, are read once. SQLite keeps it in a temporary file, so
memory does not grow with the history.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slurm_ext.core.errors import HistoryError
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

NAME = "period_runs"
_HELPERS = ("counted", "met", "wanted", "chosen")
_NO_ROOM = (
    "the folder for temporary files has no room for a report's own table, some 300 bytes a run;"
    " SQLITE_TMPDIR names another"
)
_COUNTERS = {
    "cpu_user": "cpu_s",
    "cpu_system": "cpu_s",
    "mem_peak": "mem_peak",
    "gpu_util": "gpu_util",
    "gpu_mem_peak": "gpu_mem_peak",
}
_SUM, _MEAN, _MOST = ("sum", "avg", "max")
_HOW = {"cpu_s": _SUM, "mem_peak": _MOST, "gpu_util": _MEAN, "gpu_mem_peak": _MOST}


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """Which runs: those that ended in [since_s, until_s), seconds since the epoch."""

    since_s: float
    until_s: float
    account: str | None = None  # None: every one
    runs: Sequence[int] | None = None  # ids of those that count alone; None: all


def select_runs(history: History, period: Period, progress: Callable[[str], None]) -> int:
    """Make the table `period_runs`; how many runs are in it. Raises HistoryError."""
    try:
        with explaining(history.path):
            return _select_runs(history, period, progress)
    except HistoryError as error:
        if getattr(error.__cause__, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:
            raise
        raise HistoryError(_NO_ROOM) from error


def _select_runs(history: History, period: Period, progress: Callable[[str], None]) -> int:
    for table in (NAME, *_HELPERS):
        history.conn.execute(f"DROP TABLE IF EXISTS temp.{table}")
    which, bounds = _which(history, period)
    progress("reading counters")
    _count(history, which, bounds)
    progress("reading neighbours")
    history.conn.execute(_CREATE_MET)
    history.conn.execute(_MET.format(which), bounds)
    progress("reading runs")
    values = (period.since_s, period.until_s, period.account, period.account)
    history.conn.execute(_PERIOD_RUNS + (f" AND r.id {which}" if period.runs else ""), values)
    for table in _HELPERS:
        history.conn.execute(f"DROP TABLE IF EXISTS temp.{table}")
    (many,) = history.conn.execute(f"SELECT count(*) FROM {NAME}").fetchone()
    return int(many)


def _which(history: History, period: Period) -> tuple[str, tuple[int, ...]]:
    """A test for the ids of runs, and its values."""
    if not period.runs:
        return "BETWEEN ? AND ?", _bounds(history, period)
    history.conn.execute("CREATE TEMP TABLE chosen (run INTEGER PRIMARY KEY)")
    history.conn.executemany("INSERT INTO chosen VALUES (?)", [(run,) for run in period.runs])
    return "IN (SELECT run FROM temp.chosen)", ()


def _count(history: History, which: str, bounds: tuple[int, ...]) -> None:
    """One row a run of what its counters come to: a GPU's counters have a name each, by UUID."""
    conn = history.conn
    conn.execute("CREATE TEMP TABLE wanted (counter INTEGER PRIMARY KEY, what TEXT)")
    names = conn.execute("SELECT id, name FROM counter_names").fetchall()
    counters = [(number, _COUNTERS[name]) for number, name in names if name in _COUNTERS]
    conn.executemany("INSERT INTO wanted VALUES (?, ?)", counters)
    parts = ", ".join(f"{how}(CASE w.what WHEN '{n}' THEN c.value END)" for n, how in _HOW.items())
    columns = ", ".join(f"{name} REAL" for name in _HOW)
    conn.execute(f"CREATE TEMP TABLE counted (run INTEGER PRIMARY KEY, {columns})")
    # CROSS JOIN: in the counters' own order, so that no million groups are kept at a time.
    conn.execute(
        f"INSERT INTO counted SELECT c.run, {parts} FROM counters c CROSS JOIN wanted w"
        f" WHERE w.counter = c.counter AND c.value IS NOT NULL AND c.run {which}"
        " GROUP BY c.run",
        bounds,
    )


def _bounds(history: History, period: Period) -> tuple[int, int]:
    """Ids of the period's first and last run to come in: what lies outside is not looked at."""
    low, high = history.conn.execute(
        "SELECT min(id), max(id) FROM runs WHERE end_s >= ? AND end_s < ?",
        (period.since_s, period.until_s),
    ).fetchone()
    return (0, -1) if low is None else (low, high)


_HOURS = "max(r.elapsed_s, 0) / 3600.0"


def _lost(used: str) -> str:
    """The share that was not used, 0 to 1: NULL where the use was not measured."""
    return f"min(1.0, max(0.0, 1.0 - {used}))"


# Cores that a training waited for while others computed on them: they were not idle.
_WAITED_CORES = (
    "(coalesce(l.fetch_queued_s, 0) + coalesce(l.main_queued_s, 0))"
    " * coalesce(l.samples_per_s * coalesce(l.ranks, 1) / max(1, coalesce(l.nodes, 1)), 0)"
)

# Records of a run's job, one of each of its nodes.
_OF_ITS_JOB = """FROM runs e WHERE r.num_nodes > 1 AND e.job_id = r.job_id AND e.cluster = r.cluster
    AND e.restart = r.restart AND e.start_s <= r.end_s AND e.end_s >= r.start_s"""

# A job waits once, although the record of each node may tell of it.
_FIRST = f"""NOT EXISTS (SELECT 1 {_OF_ITS_JOB}
    AND (e.submit_s IS NULL, e.id) < (r.submit_s IS NULL, r.id))"""

# Memory on a node, which the first node alone asks Slurm for.
_MEM = f"""coalesce(r.mem_bytes,
    (SELECT e.mem_bytes {_OF_ITS_JOB} AND e.mem_bytes IS NOT NULL LIMIT 1))"""

# How many others were on a run's GPUs, and on its node, on average over its time.
_CREATE_MET = "CREATE TEMP TABLE met (run INTEGER PRIMARY KEY, gpu_s REAL, node_s REAL)"
_MET = """
INSERT INTO met
SELECT run, sum(CASE WHEN shared_gpus <> '' THEN overlap_s END) AS gpu_s, sum(overlap_s) AS node_s
FROM corunners WHERE run {} AND overlap_s > 0 GROUP BY run"""

_PERIOD_RUNS = f"""
CREATE TEMP TABLE {NAME} AS
SELECT r.id, r.job_id, r.cluster, r.node, r.user, r.account, r.partition, r.job_name,
    r.state, r.source, r.decision, r.cpus, coalesce(r.gpus, 0) AS gpus,
    iif(r.gpus > 0, coalesce(l.gpu_model, r.node_gpu_model), NULL) AS gpu_model,
    r.elapsed_s, r.start_s, r.end_s, {_FIRST} AS first_of_job,
    iif({_FIRST}, r.start_s - r.submit_s, NULL) AS waited_s,
    coalesce(r.gpus, 0) * {_HOURS} AS gpu_hours, r.cpus * {_HOURS} AS core_hours,
    {_MEM} / 1073741824.0 * {_HOURS} AS gib_hours,
    l.samples_per_s, coalesce(l.emulated, 0) AS emulated,
    iif(r.gpus > 0 AND l.samples_per_s > 0 AND l.accel_samples_per_s > 0,
        {_lost("l.samples_per_s / l.accel_samples_per_s")}, NULL) AS starved,
    iif(r.gpus > 0, {_lost("k.gpu_util")}, NULL) AS gpu_idle,
    {_lost(f"(k.cpu_s / nullif(r.elapsed_s, 0) + {_WAITED_CORES}) / nullif(r.cpus, 0)")}
        AS core_idle,
    {_lost(f"k.mem_peak / nullif({_MEM}, 0)")} AS mem_unused,
    coalesce(m.gpu_s / nullif(r.elapsed_s, 0), 0) AS gpu_company,
    coalesce(m.node_s / nullif(r.elapsed_s, 0), 0) AS node_company,
    r.gpu_energy_j / (1 + coalesce(m.gpu_s / nullif(r.elapsed_s, 0), 0)) AS gpu_energy_j,
    r.node_energy_j * r.cpus / nullif(r.node_cores, 0) AS cpu_energy_j
FROM runs r
LEFT JOIN loader_runs l ON l.run = r.id
LEFT JOIN temp.counted k ON k.run = r.id
LEFT JOIN temp.met m ON m.run = r.id
WHERE r.end_s >= ? AND r.end_s < ? AND (? IS NULL OR r.account = ?)"""
