"""A folder as the Pollux artifact's: one application's tables, made up, and a workload of it."""

import csv
from pathlib import Path
from typing import Any

EPOCHS = 4
HEADER = "name,time,application,num_replicas,batch_size"
JOBS = (("a", 30, "app", 1, 20), ("b", 90, "app", 4, 40))


def write_folder(
    root: Path, jobs: tuple[tuple[Any, ...], ...] = JOBS, *, per_epoch: int = 100
) -> Path:
    """The workload's file. A step takes batch/100 s, and 0.1 s to synchronise."""
    places = ["1", "2", "3", "4", "11", "22", "33", "44", "1111", "4444"]
    sync = dict.fromkeys(places[1:], 0.1) | {"1": 0.0}
    rows = [(p, m, m / 100 + sync[p], sync[p]) for p in places for m in (10, 100)]
    write(root / "traces/app/placements.csv", "placement,local_bsz,step_time,sync_time", rows)
    scales = [(n, n * g, m, m / 100 + 0.1, 0.1) for n in (2, 16) for g in (1, 4) for m in (10, 100)]
    names = "num_nodes,num_replicas,local_bsz,step_time,sync_time"
    write(root / "traces/app/scalability.csv", names, scales)
    for batch in (20, 200):
        runs = [(per_epoch * (e + 1), e, 0.5, 1.0, 9.0) for e in range(EPOCHS)]
        columns = "progress,iteration,metric,grad_sqr,grad_var"
        write(root / f"traces/app/validation-{batch}.csv", columns, runs)
    return write(root / "workloads/workload-1.csv", HEADER, list(jobs))


def write(path: Path, columns: str, rows: list[tuple[Any, ...]]) -> Path:
    """One table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns.split(","), *rows])
    return path
