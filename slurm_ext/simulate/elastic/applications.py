"""Measured tables of applications: seconds of a step at any placement, and gradient statistics.

As the Pollux artifact's simulator reads them (petuum/adaptdl osdi21-artifact; Qiao et al., OSDI
'21). A placement is a cycle of GPUs by node, equal under rotation. A measured placement is
interpolated linearly between batches, another one over (nodes, GPUs, batch) by simplices of all
measured points; outside of these it is the nearest measured one (the published simulator stops
there). Gradient statistics are linear between measured global batches. Progress counts iterations
at the initial batch; an iteration at batch M is worth AdaScale's gain. Only the replay may look
here: a policy sees what its jobs have measured.
"""

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.core.errors import Extra, InputError, unreadable

Floats = NDArray[np.float64]
Placement = tuple[int, ...]  # GPUs by node
MOST_LOCAL = {"yolov3": 8}  # of the published simulation, below what was measured
EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
POINT = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
VALIDATION = ("progress", "grad_sqr", "grad_var")


@dataclass(frozen=True, eq=False, kw_only=True)
class Application:
    """One training's measured tables."""

    name: str
    batches: tuple[int, ...]  # global, ascending; the first is the initial one
    local: tuple[int, int]  # smallest and largest batch of a GPU
    ends: Floats  # progress at the end of each epoch, iterations at the initial batch
    squares: Floats  # of the gradient, by (batch, epoch)
    variances: Floats  # of the gradient at the initial batch, by (batch, epoch)
    placed: dict[Placement, Floats]  # rows of local batch, step (s), synchronising (s)
    between: Callable[[Any], Any]  # (nodes, GPUs, batch) -> step and synchronising; NaN outside
    nearest: Callable[[Any], Any]
    cached: dict[tuple[Placement, int], tuple[float, float]] = field(default_factory=dict)

    def step(self, placement: Placement, local: int) -> tuple[float, float]:
        """Seconds of a step, and of it synchronising."""
        key = (rotated(placement), local)
        if key not in self.cached:
            self.cached[key] = self._step(*key)
        return self.cached[key]

    def _step(self, placement: Placement, local: int) -> tuple[float, float]:
        rows = self.placed.get(placement)
        if rows is not None:
            step, sync = (np.interp(local, rows[:, 0], rows[:, column]) for column in (1, 2))
        else:
            point = [[len(placement), sum(placement), local]]
            step, sync = self.between(point)[0]
            if not step > 0:
                step, sync = self.nearest(point)[0]
        if not step > 0:
            raise InputError(self.name, f"no step time for {placement} at batch {local} a GPU")
        return float(step), float(sync)

    def gradients(self, batch: float, epoch: int) -> tuple[float, float]:
        """Square and variance of the gradient at this global batch, in this epoch from 0."""
        square, variance = (
            float(np.interp(batch, self.batches, table[:, epoch]))
            for table in (self.squares, self.variances)
        )
        return square, variance

    @property
    def per_node(self) -> int:
        """GPUs of the largest node that was measured."""
        return max(max(placement) for placement in self.placed)


def rotated(placement: Placement) -> Placement:
    """The least rotation, which stands for all of them."""
    return min(placement[at:] + placement[:at] for at in range(len(placement)))


@cache
def applications(folder: Path) -> dict[str, Application]:
    """All of a folder. Raises InputError where one lacks a table, MissingError without scipy."""
    paths = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if not paths:
        raise InputError(str(folder), "expected a folder of tables for each application")
    return {path.name: _application(path) for path in paths}


def _application(folder: Path) -> Application:
    with Extra("train"):
        from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator
    placements, points = _placements(folder)
    runs = {
        int(path.stem.split("-")[1]): rows_of(path, VALIDATION)
        for path in folder.glob("validation-*.csv")
    }
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


def _placements(folder: Path) -> tuple[dict[Placement, Floats], Floats]:
    """Steps by placement, and all points (nodes, GPUs, batch, step, synchronising)."""
    by_placement: dict[Placement, list[tuple[float, float, float]]] = defaultdict(list)
    by_size: dict[tuple[float, ...], list[tuple[float, float]]] = defaultdict(list)
    for row in rows_of(folder / "placements.csv", ("placement", *POINT[2:])):
        placement = rotated(tuple(int(digit) for digit in row["placement"]))
        step = (float(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"]))
        by_placement[placement].append(step)
        by_size[len(placement), sum(placement), step[0]].append(step[1:])
    points = [(*size, *np.mean(steps, axis=0)) for size, steps in by_size.items()]
    scaled = rows_of(folder / "scalability.csv", POINT)
    points += [tuple(float(row[name]) for name in POINT) for row in scaled]
    return {key: np.array(sorted(rows)) for key, rows in by_placement.items()}, np.array(points)


def rows_of(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    """Rows by column name. Raises InputError where the file lacks one of `columns`."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, restval="")
            missing = sorted(set(columns) - set(reader.fieldnames or ()))
            if missing:
                raise InputError(str(path), f"no column {', '.join(missing)}", line=1)
            return list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(str(path), error) from None
