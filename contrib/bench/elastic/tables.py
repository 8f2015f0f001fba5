"""The Pollux artifact's tables: what a job's steps take and what its gradients say, anywhere.

As the published simulator reads them (petuum/adaptdl osdi21-artifact; Qiao et al., OSDI '21): a
placement is a cycle of GPUs by node, equal under rotation; one that was measured is interpolated
linearly between batches, another one over (nodes, GPUs, batch) by simplices of all measured points.
Outside of these it is the nearest measured one (the published simulator stops there). Gradient
statistics are linear between measured global batches. Progress counts iterations at the initial
batch; an iteration at batch M is worth AdaScale's gain. Only the replay may look here.
"""

import csv
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator

from contrib.bench.common.arrays import Array
from slurm_ext.core.errors import InputError

MOST_LOCAL = {"yolov3": 8}  # of the published simulation, below what was measured
EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}


@dataclass(frozen=True, eq=False, kw_only=True)
class Application:
    """One training's measured tables."""

    name: str
    batches: tuple[int, ...]  # global, ascending; the first is the initial one
    local: tuple[int, int]  # smallest and largest batch of a GPU
    ends: Array  # progress at the end of each epoch, iterations at the initial batch
    squares: Array  # of the gradient, by (batch, epoch)
    variances: Array  # of the gradient at the initial batch, by (batch, epoch)
    placed: dict[tuple[int, ...], Array]  # rows of local batch, step (s), synchronising (s)
    between: LinearNDInterpolator
    nearest: NearestNDInterpolator
    known: dict[tuple[tuple[int, ...], int], tuple[float, float]] = field(default_factory=dict)

    def step(self, placement: tuple[int, ...], local: int) -> tuple[float, float]:
        """Seconds of a step, and of it synchronising."""
        key = (turned(placement), local)
        if key not in self.known:
            self.known[key] = self._step(*key)
        return self.known[key]

    def _step(self, placement: tuple[int, ...], local: int) -> tuple[float, float]:
        rows = self.placed.get(placement)
        if rows is not None:
            step, sync = (np.interp(local, rows[:, 0], rows[:, of]) for of in (1, 2))
        else:
            at = [[len(placement), sum(placement), local]]
            step, sync = self.between(at)[0]
            if not step > 0:
                step, sync = self.nearest(at)[0]
        if not step > 0:
            raise InputError(self.name, f"no step time for {placement} at batch {local} a GPU")
        return float(step), float(sync)

    def gradients(self, batch: float, epoch: int) -> tuple[float, float]:
        """Square and variance of the gradient at this global batch, in this epoch from 0."""
        at = [float(np.interp(batch, self.batches, of[:, epoch])) for of in self._both]
        return at[0], at[1]

    @property
    def _both(self) -> tuple[Array, Array]:
        return self.squares, self.variances


def turned(placement: tuple[int, ...]) -> tuple[int, ...]:
    """The least rotation, which stands for all of them."""
    return min(placement[at:] + placement[:at] for at in range(len(placement)))


@cache
def applications(folder: Path) -> dict[str, Application]:
    """All of a folder. Raises InputError where one lacks a table."""
    found = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if not found:
        raise InputError(str(folder), "expected a folder of tables for each application")
    return {path.name: _application(path) for path in found}


def _application(folder: Path) -> Application:
    placements, points = _placements(folder)
    runs = {int(path.stem.split("-")[1]): _rows(path) for path in folder.glob("validation-*.csv")}
    if not runs:
        raise InputError(str(folder), "has no validation-BATCH.csv")
    batches = tuple(sorted(runs))
    epochs = EPOCHS.get(folder.name, min(len(run) for run in runs.values()))
    squares, variances = (
        np.array([[float(row[column]) for row in runs[b][:epochs]] for b in batches])
        for column in ("grad_sqr", "grad_var")
    )
    locals_ = sorted({int(row[0]) for rows in placements.values() for row in rows})
    return Application(
        name=folder.name,
        batches=batches,
        local=(locals_[0], MOST_LOCAL.get(folder.name, locals_[-1])),
        ends=np.array([float(row["progress"]) for row in runs[batches[0]][:epochs]]),
        squares=squares,
        variances=variances,
        placed=placements,
        between=LinearNDInterpolator(points[:, :3], points[:, 3:]),
        nearest=NearestNDInterpolator(points[:, :3], points[:, 3:], rescale=True),
    )


def _placements(folder: Path) -> tuple[dict[tuple[int, ...], Array], Array]:
    """Steps by placement, and all points (nodes, GPUs, batch, step, synchronising)."""
    by: dict[tuple[int, ...], list[tuple[float, float, float]]] = defaultdict(list)
    same: dict[tuple[float, ...], list[tuple[float, float]]] = defaultdict(list)
    for row in _rows(folder / "placements.csv"):
        placement = turned(tuple(int(digit) for digit in row["placement"]))
        step = (float(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"]))
        by[placement].append(step)
        same[len(placement), sum(placement), step[0]].append(step[1:])
    points = [(*at, *np.mean(steps, axis=0)) for at, steps in same.items()]
    names = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
    points += [tuple(float(row[n]) for n in names) for row in _rows(folder / "scalability.csv")]
    return {key: np.array(sorted(rows)) for key, rows in by.items()}, np.array(points)


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One job of a workload; `gpus` and `batch` are the tuned fixed configuration."""

    name: str
    arrival_s: float
    application: str
    gpus: int
    batch: int


def workload(path: Path) -> list[Asked]:
    """Its jobs in order of arrival. Raises InputError, naming file and line."""
    jobs = []
    for line, row in enumerate(_rows(path), start=2):
        try:
            job = Asked(
                name=row["name"],
                arrival_s=float(row["time"]),
                application=row["application"],
                gpus=int(row["num_replicas"]),
                batch=int(row["batch_size"]),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(str(path), f"unusable job: {error!r}", line=line) from None
        if job.gpus < 1 or job.batch < 1 or not job.arrival_s >= 0:
            raise InputError(str(path), "expected GPUs, batch above 0 and a time", line=line)
        jobs.append(job)
    if len({job.name for job in jobs}) < len(jobs):
        raise InputError(str(path), "has a job's name twice")
    return sorted(jobs, key=lambda job: job.arrival_s)
