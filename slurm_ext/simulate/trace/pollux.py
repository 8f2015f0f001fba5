"""Workloads of the Pollux artifact: how long each job runs on its fixed GPUs and batch size.

The artifact measured step times by placement and batch per GPU, and by batch size the iterations
until each training is done; a workload names only arrival, application, GPUs and batch. So the
duration is iterations x step time on nodes of 4 GPUs, step times linear between measured batches. A
batch per GPU above the largest measured is accumulated in equal parts, of which only the last one
synchronises.
Source: petuum/adaptdl, branch osdi21-artifact (Qiao et al., OSDI '21).
"""

import csv
from functools import cache
from pathlib import Path

import numpy as np

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.trace.row import Fields, Read, TraceRow, count
from slurm_ext.simulate.trace.times import Clock

PER_NODE = 4  # GPUs of the artifact's nodes
Steps = list[tuple[float, float, float]]  # batch per GPU, step (s), of it synchronising (s)


def reader(path: Path) -> Read:
    """Reads lines of a workload, whose tables are in ../traces beside its folder.

    Raises InputError where they are not.
    """
    tables = path.resolve().parent.parent / "traces"
    if not tables.is_dir():
        raise InputError(str(path), f"durations come from tables: no folder {tables}")
    duration_s = cache(lambda app, gpus, batch: _duration_s(tables / app, gpus, batch))

    def read(fields: Fields, clock: Clock) -> TraceRow:
        gpus = count(fields["num_replicas"], "num_replicas")
        batch = count(fields["batch_size"], "batch_size")
        if not gpus or not batch:
            raise ValueError("num_replicas and batch_size: expected numbers over 0")
        return TraceRow(
            job=fields["name"],
            submit_s=clock.seconds(fields["time"]),
            duration_s=duration_s(fields["application"], gpus, batch),
            gpus=gpus,
            user=fields["application"],
        )

    return read


def _duration_s(folder: Path, gpus: int, batch: int) -> float:
    """Raises ValueError where the tables do not tell."""
    steps = _steps(folder, gpus)
    batch_of_gpu = batch / gpus
    largest = steps[-1][0]
    parts = -(-batch_of_gpu // largest)
    batches, step_s, sync_s = np.array(steps).T
    step = float(np.interp(batch_of_gpu / parts, batches, step_s))
    sync = float(np.interp(batch_of_gpu / parts, batches, sync_s))
    return _iterations(folder, batch) * (parts * step - (parts - 1) * sync)


def _iterations(folder: Path, batch: int) -> float:
    """Until the training is done, at this batch size."""
    path = folder / f"validation-{batch}.csv"
    if not path.is_file():
        raise ValueError(f"{folder.name} was never measured at batch {batch}: no file {path}")
    with path.open(encoding="utf-8", newline="") as file:
        return float([row["iteration"] for row in csv.DictReader(file)][-1])


@cache
def _steps(folder: Path, gpus: int) -> Steps:
    """Step times on as few nodes as possible, by batch per GPU."""
    nodes, rest = divmod(gpus, PER_NODE)
    placement = "".join(sorted(str(PER_NODE) * nodes + (str(rest) if rest else "")))
    steps = [
        _step(row)
        for row in _rows(folder / "placements.csv")
        if "".join(sorted(row["placement"])) == placement
    ]
    size = (str(nodes + bool(rest)), str(gpus))
    steps += [
        _step(row)
        for row in _rows(folder / "scalability.csv")
        if (row["num_nodes"], row["num_replicas"]) == size
    ]
    if not steps:
        raise ValueError(f"{folder.name} was never measured on {gpus} GPUs of {PER_NODE} a node")
    return sorted(steps)


def _step(row: Fields) -> tuple[float, float, float]:
    return float(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"])


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        raise ValueError(f"{path.parent.name} is no application of the tables: no file {path}")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
