"""Plausible runs for benchmarks and tests: spool records one by one, or a whole history.db fast.

`python -m contrib.bench.common.synthetic_history DB RUNS` writes a history of RUNS runs. The runs
are those of a few thousand users' scripts, so that every similarity level has evidence.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import Submission
from slurm_ext.history.store.names import KEY_COLUMNS, LOADER_COLUMNS, STORED_LEVELS
from slurm_ext.history.store.store import History, open_history

START_S = 1_750_000_000.0
BATCH = 20_000
SCRIPTS = 3000  # users' scripts that runs are of
COUNTERS = (
    ("cpu_user", "s", "cgroup/v1"),
    ("cpu_system", "s", "cgroup/v1"),
    ("cpu_throttled", "s", "cgroup/v1"),
    ("mem_peak", "B", "cgroup/v1"),
    ("major_faults", "1", "cgroup/v1"),
    ("io_read", "B", "proc"),
    ("io_write", "B", "proc"),
    ("context_switches", "1", "proc"),
    ("pressure_cpu_some", "s", "proc/pressure"),
)


def script(number: int) -> str:
    """The batch script of one of the synthetic users."""
    return f"#!/bin/bash\n#SBATCH -c 2\npython3 train_{number % 300}.py --model m{number % 40}\n"


def submission(number: int) -> Submission:
    """The submission of script `number`; its keys are those of the runs in the history."""
    return Submission(
        name=f"job{chr(97 + number % 26)}",
        user_id=1000 + number % 500,
        user_name=f"user{number % 500}",
        partition="gpu",
        script=script(number),
        argv=("train.sh",),
        cpus_per_task=2,
    )


def record(job_id: int, rng: random.Random, *, cluster: str = "cluster") -> dict[str, Any]:
    """One spool record with counters, a time line and a probe summary of about 5 kB."""
    who = submission(rng.randrange(SCRIPTS))
    elapsed = rng.uniform(60.0, 7200.0)
    start = START_S + job_id * 30.0
    return {
        "v": 1,
        "kind": "run",
        "record_id": f"{cluster}-{job_id}-0-n1",
        "identity": {
            "cluster": cluster,
            "job_id": job_id,
            "restart": 0,
            "node": "n1",
            "user": who.user_name,
            "uid": who.user_id,
            "account": "vision",
            "partition": who.partition,
            "job_name": who.name,
            "work_dir": f"/home/{who.user_name}",
            "array_job_id": None,
            "array_task_id": None,
        },
        "allocation": {
            "cpus": 2,
            "cpus_per_task": 2,
            "num_tasks": 1,
            "num_nodes": 1,
            "mem_bytes": 8 << 30,
            "gpus": [],
            "time_limit_s": 86400,
        },
        "times": {
            "submit_s": start - 20,
            "start_s": start,
            "end_s": start + elapsed,
            "elapsed_s": elapsed,
        },
        "outcome": {"state": "COMPLETED", "exit_code": 0, "signal": 0, "source": "epilog"},
        "host": {"cores": 64, "mem_bytes": 1 << 38, "boot_id": "b", "kernel": "6.1", "gpus": []},
        "counters": [
            {"name": n, "unit": u, "source": s, "value": round(rng.uniform(0, 1e6), 1)}
            for n, u, s in COUNTERS
        ],
        "timeline": {
            "columns": ["t_s", "cpu_s", "mem_bytes", "io_read_bytes"],
            "rows": [
                [round(elapsed * i / 20, 1), round(rng.uniform(0, 2) * i, 2), 1 << 30, i << 20]
                for i in range(20)
            ],
        },
        "corunners": [{"job_id": job_id - 1, "overlap_s": round(elapsed / 2, 1)}],
        "decision": None,
        "probe": {"summaries": [_summary(rng, elapsed)], "faults": []},
    }


def _summary(rng: random.Random, elapsed: float) -> dict[str, Any]:
    rate, workers = rng.uniform(50, 2000), rng.choice((0, 2, 4, 8))
    samples = int(rate * elapsed)
    phase = {
        "phase": "later",
        "epochs": 3,
        "samples": samples,
        "batches": max(4, samples // 32),
        "wall_s": elapsed,
        "wait_s": elapsed * 0.4,
        "step_s": elapsed * 0.6,
        "workers": float(workers),
        "fetch_samples": samples,
        "fetch_wall_s": samples * 0.01,
        "fetch_cpu_s": samples * 0.009,
        "bytes_read": samples * 50_000,
    }
    loader = {
        "id": 0,
        "dataset": "JpegFolder",
        "style": "map",
        "batch_size": 32,
        "length": samples // 3,
        "user_num_workers": workers,
        "started_workers": workers,
        "gate": workers,
        "method": "gated",
        "left_alone": None,
        "fallback": None,
        "worker_rss_bytes": 210_000_000,
        "startup_s": 0.8,
        "phases": [{**phase, "phase": "first_epoch"}, phase],
    }
    return {
        "v": 1,
        "pid": 4242,
        "rank": 0,
        "world_size": 1,
        "host": "n1",
        "python": "3.11.2",
        "torch": "2.13.0",
        "accelerator": None,
        "cores": 2,
        "node_cores": 64,
        "main_cpu_s": elapsed * 0.1,
        "loaders": [loader],
        "faults": [],
    }


def write_records(folder: Path, first: int, many: int, *, seed: int = 1) -> None:
    """`many` spool records as files of `folder`, with job ids from `first` on."""
    rng = random.Random(seed + first)
    folder.mkdir(parents=True, exist_ok=True)
    for job_id in range(first, first + many):
        body = record(job_id, rng)
        (folder / f"{body['record_id']}.json").write_text(json.dumps(body, separators=(",", ":")))


def fill(path: Path, runs: int, *, seed: int = 1, scripts: int = SCRIPTS) -> None:
    """Add `runs` runs with their loader runs to the history at `path`, past the spool.

    They are of so many users' `scripts`. Only what predictions read (runs, loader_runs); counters
    and time lines come by ingest.
    """
    rng = random.Random(seed)
    with open_history(path) as history:
        first = _last_job(history) + 1
        jobs = iter(range(first, first + runs))
        keys = [keys_of(submission(number)) for number in range(scripts)]
        while chunk := list(islice(jobs, BATCH)):
            _insert(history, chunk, keys, rng)
        history.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def fill_up(path: Path, runs: int) -> float:
    """Fill the history at `path` until it has `runs` runs; returns the seconds that it took."""
    began = time.monotonic()
    with open_history(path) as history:
        there = _last_job(history)
    if there < runs:
        fill(path, runs - there, seed=1 + there)
    return time.monotonic() - began


def _last_job(history: History) -> int:
    (last,) = history.conn.execute("SELECT max(id) FROM runs").fetchone()
    return last or 0


def _insert(history: History, jobs: list[int], keys: list[Any], rng: random.Random) -> None:
    with history.transaction() as conn:
        scripts = [rng.randrange(len(keys)) for _ in jobs]
        conn.executemany(_RUN, _run_rows(jobs, scripts))
        conn.executemany(_LOADER, _loader_rows(jobs, scripts, keys, rng))


_RUN_NAMES = ("id", "record_id", "cluster", "job_id", "restart", "node", "user", "uid")
_RUN_MORE = ("partition", "job_name", "cpus", "cpus_per_task", "num_tasks", "num_nodes")
_RUN_TIMES = ("start_s", "end_s", "elapsed_s", "state", "source", "ingested_s")
_RUN = (
    f"INSERT INTO runs ({', '.join((*_RUN_NAMES, *_RUN_MORE, *_RUN_TIMES))})"
    f" VALUES ({', '.join('?' * 20)})"
)
_LOADER_NAMES = ("run", *LOADER_COLUMNS, *KEY_COLUMNS)
_LOADER = (
    f"INSERT INTO loader_runs ({', '.join(_LOADER_NAMES)})"
    f" VALUES ({', '.join('?' * len(_LOADER_NAMES))})"
)


def _run_rows(jobs: list[int], scripts: list[int]) -> Iterator[tuple[Any, ...]]:
    for job, number in zip(jobs, scripts, strict=True):
        user, name = f"user{number % 500}", f"job{chr(97 + number % 26)}"
        start = START_S + job * 30.0
        yield (
            job,
            f"cluster-{job}-0-n1",
            "cluster",
            job,
            0,
            "n1",
            user,
            1000 + number % 500,
            "gpu",
            name,
            2,
            2,
            1,
            1,
            start,
            start + 600,
            600.0,
            "COMPLETED",
            "epilog",
            start + 601,
        )


def _loader_rows(
    jobs: list[int], scripts: list[int], keys: list[Any], rng: random.Random
) -> Iterator[tuple[Any, ...]]:
    for job, number in zip(jobs, scripts, strict=True):
        accel, fetch_s, workers = 50.0 + number, 0.002 + (number % 50) / 2500, number % 5
        rate = min(accel, max(1, min(workers, 2)) / fetch_s) * rng.uniform(0.9, 1.1)
        values = {
            "samples_per_s": rate,
            "workers": workers,
            "cores": 2.0,
            "batch_size": 32.0,
            "accel_samples_per_s": accel,
            "fetch_wall_s": fetch_s,
            "fetch_cpu_s": fetch_s * 0.9,
            "worker_rss_bytes": 200_000_000,
            "main_cpu_s": 1e-4,
            "bytes_per_sample": 50_000.0,
            "node_cores": 64,
            "emulated": 0,
            "gpus": 1,
            "user_workers": workers,
            "ranks": 1,
            "nodes": 1,
            "run_samples": rate * 590,
            "outside_s": 10.0,
        }
        own = keys[number]
        yield (
            job,
            *(values.get(name) for name in LOADER_COLUMNS),
            *(own.get(level) for level in STORED_LEVELS),
        )


def main() -> None:
    """Write a history of RUNS runs to DB."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("db", type=Path)
    parser.add_argument("runs", type=int)
    args = parser.parse_args()
    started = time.monotonic()
    fill(args.db, args.runs)
    size_mib = args.db.stat().st_size / (1 << 20)
    print(f"{args.runs} runs, {size_mib:.0f} MiB, {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
