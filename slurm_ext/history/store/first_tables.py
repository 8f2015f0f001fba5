"""The tables of the history's first version; what came later is added by migrations (schema.py)."""

from typing import TYPE_CHECKING

from slurm_ext.history.store.reading import APPLICATION_ID

if TYPE_CHECKING:
    from sqlite_utils import Database

_RUNS = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    record_id TEXT NOT NULL UNIQUE,
    cluster TEXT NOT NULL, job_id INTEGER NOT NULL, restart INTEGER NOT NULL, node TEXT NOT NULL,
    user TEXT, uid INTEGER, account TEXT, partition TEXT, job_name TEXT, work_dir TEXT,
    array_job_id INTEGER, array_task_id INTEGER,
    cpus INTEGER, cpus_per_task INTEGER, num_tasks INTEGER, num_nodes INTEGER,
    mem_bytes INTEGER, gpus INTEGER, time_limit_s REAL,
    submit_s REAL, start_s REAL, end_s REAL, elapsed_s REAL,
    state TEXT NOT NULL, exit_code INTEGER, signal INTEGER,
    source TEXT NOT NULL,        -- who saw the end: epilog, else node, else reconcile
    node_cores INTEGER, node_mem_bytes INTEGER, node_gpus INTEGER, boot_id TEXT, kernel TEXT,
    decision TEXT,               -- the submission's token; its proposal may arrive later
    ingested_s REAL NOT NULL
)"""

# What belongs to one run goes with it: a replaced or forgotten run leaves nothing behind.
OF_RUN = "INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE"

_COUNTER_NAMES = """
CREATE TABLE counter_names (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, unit TEXT NOT NULL, source TEXT NOT NULL,
    UNIQUE (name, unit, source)
)"""

_COUNTERS = f"""
CREATE TABLE counters (
    run {OF_RUN}, counter INTEGER NOT NULL REFERENCES counter_names(id), value REAL,
    PRIMARY KEY (run, counter)
) WITHOUT ROWID"""

_CORUNNERS = f"""
CREATE TABLE corunners (
    run {OF_RUN}, job_id INTEGER NOT NULL, overlap_s REAL, PRIMARY KEY (run, job_id)
) WITHOUT ROWID"""

# Deflated JSON: read for one run at a time, and a fifth of the size.
_TIMELINE = f"CREATE TABLE timeline (run {OF_RUN}, samples BLOB, PRIMARY KEY (run))"
_PROBES = f"CREATE TABLE probes (run {OF_RUN}, summaries BLOB, PRIMARY KEY (run))"
_EVIDENCE = (_COUNTER_NAMES, _COUNTERS, _CORUNNERS, _TIMELINE, _PROBES)

_KEYS = (
    "key_script_args INTEGER, key_script INTEGER, key_user_name INTEGER, key_kind INTEGER,"
    " key_cluster INTEGER"
)
KEY_COLUMNS = tuple(f"key_{n}" for n in ("script_args", "script", "user_name", "kind", "cluster"))

# AUTOINCREMENT: an id never comes back, so a reader that remembers the last one misses nothing.
_LOADER_RUNS = f"""
CREATE TABLE loader_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run {OF_RUN} UNIQUE,
    samples_per_s REAL, workers INTEGER, cores REAL, batch_size REAL, accel_samples_per_s REAL,
    fetch_wall_s REAL, fetch_cpu_s REAL, worker_rss_bytes INTEGER, main_cpu_s REAL,
    bytes_per_sample REAL, node_cores INTEGER, emulated INTEGER, gpus INTEGER, user_workers INTEGER,
    epoch_samples REAL,
    {_KEYS}
)"""

_DECISIONS = f"""
CREATE TABLE decisions (
    id INTEGER PRIMARY KEY,
    token TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('proposed', 'claimed')),
    decided_s REAL NOT NULL, job_id INTEGER, claimed_s REAL,
    mode TEXT NOT NULL, holdout INTEGER NOT NULL, action TEXT NOT NULL, reason TEXT NOT NULL,
    user TEXT, uid INTEGER, job_name TEXT, account TEXT, partition TEXT,
    before_cpus INTEGER, before_workers INTEGER, after_cpus INTEGER, after_workers INTEGER,
    before_samples_per_s REAL, before_low REAL, before_high REAL, before_bottleneck TEXT,
    after_samples_per_s REAL, after_low REAL, after_high REAL, after_bottleneck TEXT,
    interval_level REAL, level TEXT, runs INTEGER,
    factor REAL NOT NULL,        -- by which the intervals were widened, as outcomes had it then
    edits TEXT NOT NULL, message TEXT, model TEXT,
    {_KEYS}
)"""

_SET_ASIDE = """
CREATE TABLE set_aside (
    name TEXT PRIMARY KEY,       -- of the file in the folder aside/
    source TEXT NOT NULL, reason TEXT NOT NULL, sha256 TEXT, size_bytes INTEGER,
    aside_s REAL NOT NULL
) WITHOUT ROWID"""

_LEDGERS = (
    "CREATE TABLE journals (name TEXT PRIMARY KEY, offset INTEGER NOT NULL) WITHOUT ROWID",
    _SET_ASIDE,
    # Runs that retention removed: their records, delivered again, are not new.
    "CREATE TABLE forgotten (record_id TEXT PRIMARY KEY) WITHOUT ROWID",
)

_INDEXES = (
    "CREATE INDEX runs_end ON runs (end_s)",
    "CREATE INDEX runs_job ON runs (job_id)",
    "CREATE INDEX runs_decision ON runs (decision) WHERE decision IS NOT NULL",
    "CREATE INDEX decisions_job ON decisions (job_id) WHERE job_id IS NOT NULL",
    "CREATE INDEX decisions_state ON decisions (state, decided_s)",
    "CREATE INDEX decisions_believed ON decisions (state) WHERE after_samples_per_s IS NOT NULL",
    # An index ends with the row's id, so "the newest K of a key" is one short range.
    *(f"CREATE INDEX loader_{key} ON loader_runs ({key})" for key in KEY_COLUMNS),
)


def first_tables(db: "Database") -> None:
    """Runs with their evidence, the ledger of decisions, and what keeps ingest exact."""
    for statement in (_RUNS, *_EVIDENCE, _LOADER_RUNS, _DECISIONS, *_LEDGERS, *_INDEXES):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
