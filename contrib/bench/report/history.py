"""Synthetic history with all that a report reads: `python -m contrib.bench.report.history DB RUNS`.

On top of synthetic_history.py's runs: accounts, GPUs, memory, waits, 28 counters a run, decisions
with a control group and a true gain of GAIN, runs side by side, energy, moves. All by SQL from the
run's number, so that a million take a minute and each call makes the same.
"""

import argparse
import sys
from pathlib import Path

from contrib.bench.common import synthetic_history
from slurm_ext.history.store.store import History, open_history

GAIN = 1.4  # of changed jobs' rates, before noise
HOLDOUT = 0.05
OTHER_COUNTERS = 20  # beside those that a report reads
MODELS = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB")


def noise(k: int, column: str = "r.id") -> str:
    """An SQL expression from 0 to 1 that looks random over rows; `k` tells it from others."""
    mixed = f"(({column} * 48271 + {k} * 829348951) % 2147483647)"
    return f"({mixed} * ({mixed} % 65537 + 1) % 2147483647 / 2147483647.0)"


def bell(k: int) -> str:
    """About normal, mean 0, deviation 1."""
    return f"(2 * ({noise(k)} + {noise(k + 100)} + {noise(k + 200)} - 1.5))"


MONTHS = 8  # over which the runs are spread
SPREAD = f"""
UPDATE runs SET start_s = {synthetic_history.START_S} + {MONTHS} * 30 * 86400.0 * id
    / (SELECT max(id) FROM runs)"""
_GPUS = f"iif({noise(1)} < 0.3, 0, 1 << CAST(3 * {noise(2)} * {noise(2)} AS INT))"
_MODEL = (
    f"CASE r.uid % 5 WHEN 0 THEN '{MODELS[1]}' WHEN 1 THEN '{MODELS[2]}' ELSE '{MODELS[0]}' END"
)
RUNS = f"""
UPDATE runs AS r SET
    account = 'group-' || (uid % 23), partition = iif({noise(1)} < 0.3, 'cpu', 'gpu'),
    gpus = {_GPUS}, node_gpus = 8, node_gpu_model = {_MODEL},
    cpus = 1 << CAST(5 * {noise(3)} AS INT), node_cores = 64,
    mem_bytes = (8 << CAST(5 * {noise(4)} AS INT)) * 1073741824, node = 'n' || (id % 50),
    submit_s = start_s - 20 * exp(6 * {noise(5)} * {noise(6)}),
    elapsed_s = 60 * exp(5 * {noise(7)}), end_s = start_s + 60 * exp(5 * {noise(7)}),
    state = CASE CAST(30 * {noise(8)} AS INT) WHEN 0 THEN 'FAILED' WHEN 1 THEN 'TIMEOUT'
        WHEN 2 THEN 'OUT_OF_MEMORY' WHEN 3 THEN 'CANCELLED' ELSE 'COMPLETED' END"""
ENERGY = f"""
UPDATE runs AS r SET
    gpu_energy_j = iif(gpus > 0, gpus * elapsed_s * (90 + 300 * {noise(9)}), NULL),
    node_energy_j = iif({noise(10)} < 0.7, elapsed_s * (150 + 200 * {noise(11)}), NULL)"""
COUNTER_NAMES = (
    ("cpu_user", "s", "cgroup/v2"),
    ("cpu_system", "s", "cgroup/v2"),
    ("mem_peak", "B", "cgroup/v2"),
    ("gpu_util", "1", "nvml/GPU-0"),
    *((f"made_up_{number}", "1", "none") for number in range(OTHER_COUNTERS)),
)
VALUES = {
    "cpu_user": f"r.cpus * r.elapsed_s * 0.9 * {noise(12)}",
    "cpu_system": f"r.cpus * r.elapsed_s * 0.1 * {noise(13)}",
    "mem_peak": f"r.mem_bytes * {noise(14)} * {noise(15)}",
    "gpu_util": (
        f"iif(r.gpus > 0, iif({noise(16)} < 0.1, 0.01, 1 - {noise(17)} * {noise(18)}), NULL)"
    ),
}
DECIDED = f"""
INSERT INTO decisions (token, state, decided_s, job_id, claimed_s, mode, holdout, action, reason,
    user, uid, job_name, account, partition, before_cpus, before_workers, after_cpus, after_workers,
    before_samples_per_s, before_low, before_high, after_samples_per_s, after_low, after_high,
    interval_level, level, runs, factor, edits)
SELECT printf('d1-%016x', id), 'claimed', submit_s, job_id, end_s, 'act', held, action,
    iif(action = 'change', 'its loader cannot keep up: 2 workers', 'nothing to gain: 1 %'),
    user, uid, job_name, account, partition, cpus, 0, cpus, 2,
    before, before / 1.35, before * 1.35, before * wish, before * wish / 1.35,
    before * wish * 1.35, 0.9, level, 5, 1.0, '{{}}'
FROM (SELECT *, iif(action = 'change', {GAIN} * 1.1, 1.01) AS wish,
        rate / iif(action = 'change' AND NOT held, {GAIN}, 1) AS before
    FROM (SELECT r.*, l.samples_per_s * exp(0.18 * {bell(20)}) AS rate,
            {noise(21)} < {HOLDOUT} AS held, iif({noise(22)} < 0.6, 'change', 'leave') AS action,
            CASE CAST(3 * {noise(23)} AS INT) WHEN 0 THEN 'same script and arguments'
                WHEN 1 THEN 'same script' ELSE 'same user and job name' END AS level
        FROM runs r JOIN loader_runs l ON l.run = r.id WHERE r.id % 3 = 0))"""
TIED = "UPDATE runs SET decision = printf('d1-%016x', id) WHERE id % 3 = 0"
# Each fifth run has the run before it beside it, on one node, half of those on one GPU.
BESIDE = f"""
INSERT INTO corunners (run, job_id, overlap_s, shared_cpus, shared_sockets, shared_gpus)
SELECT r.id, r.job_id - 1, r.elapsed_s * 0.8, 0, 1, iif({noise(30)} < 0.5, 'GPU-0', '')
FROM runs r WHERE r.id % 5 = 0 AND r.id > 1"""
TOGETHER = """
UPDATE runs AS r SET node = p.node, start_s = p.start_s, end_s = p.start_s + r.elapsed_s
FROM runs p WHERE p.id = r.id - 1 AND r.id % 5 = 0"""
SLOWED = f"UPDATE loader_runs AS r SET samples_per_s = samples_per_s * (0.6 + 0.35 * {noise(31)})"
MOVES = f"""
INSERT INTO moves (move_id, at_s, kind, mode, subject, job_id, done, why, before, after, outcome)
SELECT printf('m1-%016x', r.id), r.start_s,
    CASE r.id % 4 WHEN 0 THEN 'pair' WHEN 1 THEN 'queue' WHEN 2 THEN 'elastic' ELSE 'energy' END,
    iif({noise(32)} < 0.5, 'act', 'shadow'), r.job_id, r.job_id, 'nice=120',
    'it is expected to be short', '{{}}', '{{}}', iif({noise(33)} < 0.5, 'it started earlier', NULL)
FROM runs r WHERE r.id % 200 = 0"""


def fill(path: Path, runs: int) -> None:
    """A new history of so many runs."""
    synthetic_history.fill(path, runs)
    with open_history(path) as history:
        history.conn.execute("PRAGMA synchronous = OFF")  # made up: it can be made again
        with history.transaction() as conn:
            conn.execute(SPREAD)
            conn.execute(RUNS)
            conn.execute(ENERGY)
            conn.execute(TOGETHER)
            conn.execute(f"{SLOWED} WHERE run % 5 = 0".replace("r.id", "r.run"))
            _count(history)
            for statement in (DECIDED, TIED, BESIDE, MOVES):
                conn.execute(statement)
            _give_gpus(history)
        history.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def runs_of(path: Path) -> int:
    """Number of runs that a history has."""
    with open_history(path) as history:
        return int(history.conn.execute("SELECT count(*) FROM runs").fetchone()[0])


def _count(history: History) -> None:
    """Every run's counters, in the order in which ingest writes them."""
    conn = history.conn
    conn.executemany(
        "INSERT OR IGNORE INTO counter_names (name, unit, source) VALUES (?, ?, ?)", COUNTER_NAMES
    )
    branches = " ".join(f"WHEN '{name}' THEN {value}" for name, value in VALUES.items())
    conn.execute(
        f"INSERT INTO counters SELECT r.id, n.id, CASE n.name {branches} ELSE r.id % 997 END"
        " FROM runs r CROSS JOIN counter_names n ORDER BY r.id, n.id"
    )


def _give_gpus(history: History) -> None:
    """Loader runs on GPUs, some of which wait for their data."""
    history.conn.execute(
        "UPDATE loader_runs AS l SET gpu_model = r.node_gpu_model, gpus = r.gpus FROM runs r"
        " WHERE r.id = l.run AND r.gpus > 0"
    )


def main() -> int:
    """Write a history of RUNS runs to DB."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("db", type=Path)
    parser.add_argument("runs", type=int)
    args = parser.parse_args()
    fill(args.db, args.runs)
    print(f"{args.runs} runs, {args.db.stat().st_size >> 20} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
