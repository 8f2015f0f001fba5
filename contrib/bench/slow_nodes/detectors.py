"""Moments at which detectors blame a node: ours, and a threshold on a node's plain mean.

The threshold's mean is over a node's last WINDOW runs, each over the mean of its training's runs so
far; it blames a node whose mean falls below half of the injected slowdown, as a script of an
administrator would.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_ext.core.stats import POOL_USERS
from slurm_ext.model.node_speed.changes import SLOW, changes, scores, tail_of
from slurm_ext.model.node_speed.residuals import NodeResidual, UnitRun, residuals
from slurm_ext.model.node_speed.slow import NODE_DAYS, bound_of

WINDOW = 20


@dataclass(frozen=True, slots=True)
class Alarm:
    """A node that is blamed after the run at `at_s`."""

    node: str
    at_s: float


def ours(runs: Sequence[UnitRun]) -> list[Alarm]:
    """Every time that model/node_speed finds a node to have become slow."""
    found = residuals(runs)
    by_unit: dict[str, list[NodeResidual]] = defaultdict(list)
    for one in found:
        by_unit[one.run.unit].append(one)
    tail = tail_of(np.array([one.value / one.sd for one in found]))
    bound = bound_of(found, len(by_unit), NODE_DAYS)
    return [
        Alarm(unit, mine[change.shown].run.at_s)
        for unit, mine in by_unit.items()
        for change in changes([one.run.user for one in mine], scores(mine, tail), bound, POOL_USERS)
        if change.slow
    ]


def mean_per_node(runs: Sequence[UnitRun]) -> list[Alarm]:
    """The baseline."""
    return list(_below_mean(runs))


def _below_mean(runs: Sequence[UnitRun]) -> Iterator[Alarm]:
    trainings: dict[str, tuple[int, float]] = {}
    nodes: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=WINDOW))
    blamed: set[str] = set()
    for run in runs:
        count, mean = trainings.get(run.training, (0, 0.0))
        mean = (mean * count + run.log_rate) / (count + 1)
        trainings[run.training] = (count + 1, mean)
        nodes[run.unit].append(run.log_rate - mean)
        last = nodes[run.unit]
        low = len(last) == WINDOW and sum(last) / WINDOW < -SLOW / 2
        if low and run.unit not in blamed:
            yield Alarm(run.unit, run.at_s)
        (blamed.add if low else blamed.discard)(run.unit)
