"""Log rate of each run less what the same training has on other nodes: the node's own part.

    log rate = training + node + noise

A training's level is the median of its last runs elsewhere, so that it follows a training that
changes, no single run moves it, and a node is never compared with itself. A run counts once the
training has run on several other nodes: of two nodes nobody knows which one differs.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

LAST = 9  # runs elsewhere that a level is the median of
FEWEST, FEWEST_NODES = 3, 2  # runs elsewhere, and nodes that they were on
MEDIAN_VARIANCE = 1.57  # pi / 2: of a median over that of a mean
MAD_SD = 1.4826  # sd of a normal over its median absolute deviation
PRIOR_RUNS = 10.0  # that the noise of all trainings counts for in that of one
LEAST_SD = 1e-3  # clocks alone differ by more


@dataclass(frozen=True, slots=True)
class UnitRun:
    """One run on one unit (a node, or a GPU of it), in the order of their ends."""

    at_s: float  # epoch seconds
    unit: str
    training: str  # of equal ones, the same work: script, arguments, batch, GPUs
    user: str
    log_rate: float


@dataclass(frozen=True, slots=True)
class NodeResidual:
    """A run's log rate over its training's level, with the sd that noise alone gives it."""

    run: UnitRun
    value: float
    sd: float


def residuals(runs: Iterable[UnitRun]) -> list[NodeResidual]:
    """Residuals of the runs that have a level, in order; `runs` oldest first."""
    levelled = list(_levelled(runs))
    usual = _spread([value for _, value, _ in levelled])
    by_training: dict[str, list[float]] = defaultdict(list)
    for run, value, _ in levelled:
        by_training[run.training].append(value)
    sds = {name: _shrunk(values, usual) for name, values in by_training.items()}
    return [
        NodeResidual(run, value, sds[run.training] * sqrt((1 + MEDIAN_VARIANCE / count) / _USUAL))
        for run, value, count in levelled
    ]


_USUAL = 1 + MEDIAN_VARIANCE / LAST  # variance of a residual over a run's own


def _levelled(runs: Iterable[UnitRun]) -> "Iterable[tuple[UnitRun, float, int]]":
    """Each run that has a level, its residual, and runs behind the level."""
    past: dict[str, dict[str, deque[tuple[int, float]]]] = defaultdict(dict)
    for place, run in enumerate(runs):
        units = past[run.training]
        elsewhere = [
            run_there
            for unit, runs_there in units.items()
            if unit != run.unit
            for run_there in runs_there
        ]
        newest = sorted(elsewhere)[-LAST:]
        there = len(units) - (run.unit in units)
        if len(newest) >= FEWEST and there >= FEWEST_NODES:
            yield run, run.log_rate - _median([rate for _, rate in newest]), len(newest)
        units.setdefault(run.unit, deque(maxlen=LAST)).append((place, run.log_rate))


def _median(values: Sequence[float]) -> float:
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _spread(values: Sequence[float]) -> float:
    """Robust sd around 0."""
    return max(LEAST_SD, MAD_SD * float(np.median(np.abs(values)))) if values else LEAST_SD


def _shrunk(values: Sequence[float], usual: float) -> float:
    """Robust sd of one training, drawn towards that of all."""
    own, count = _spread(values), len(values)
    return sqrt((PRIOR_RUNS * usual**2 + count * own**2) / (PRIOR_RUNS + count))
