"""Measured steps of several trainings, and which of them a profiler would measure first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from slurm_ext.model.scaling.model import ScalingMeasurement
from slurm_ext.model.scaling.terms import TrainingConfig

# What is measured first: GPUs on each node ("full": all that one node has), and where between the
# smallest and the largest batch (in logs). One GPU's two ends; a full node, two nodes, four; then
# the same again at other batches, half nodes, and all nodes. Never more than four nodes before the
# last one.
FULL = 0
ORDER: tuple[tuple[tuple[int, ...], float], ...] = (
    ((1,), 0.0),
    ((1,), 1.0),
    ((FULL, FULL, FULL, FULL), 0.5),
    ((FULL,), 0.67),
    ((1, 1), 0.5),
    ((FULL, FULL), 0.2),
    ((1,), 0.5),
    ((2,), 0.33),
    ((FULL,), 0.0),
    ((1, 1, 1, 1), 0.8),
    ((FULL, FULL), 0.8),
    ((2, 2), 0.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRow:
    """One measurement of a model on a cluster."""

    model: str
    cluster: str
    measured: ScalingMeasurement


def by_pair(rows: Iterable[ScalingRow]) -> dict[tuple[str, str], list[ScalingMeasurement]]:
    """Measurements of each (model, cluster), in order."""
    pairs: dict[tuple[str, str], list[ScalingMeasurement]] = {}
    for row in rows:
        pairs.setdefault((row.model, row.cluster), []).append(row.measured)
    return dict(sorted(pairs.items()))


def structured(points: Sequence[ScalingMeasurement], count: int) -> list[int]:
    """Places of the first `count` of ORDER among `points`: the nearest layout and batch there."""
    full = max((p.config.gpus for p in points if p.config.nodes == 1), default=1)
    chosen: list[int] = []
    for layout, share in ORDER[:count]:
        wanted = tuple(setting or full for setting in layout)
        taken = {_same(points[place].config) for place in chosen}
        left = [at for at, point in enumerate(points) if _same(point.config) not in taken]
        if left:
            chosen.append(_nearest(points, left, wanted, share))
    return chosen


def drawn(points: Sequence[ScalingMeasurement], count: int, seed: int) -> list[int]:
    """Places of `count` different configs, drawn at random."""
    generator = np.random.default_rng((seed, count, len(points)))
    chosen: dict[object, int] = {}
    for place in generator.permutation(len(points)):
        chosen.setdefault(_same(points[place].config), int(place))
        if len(chosen) == count:
            break
    return list(chosen.values())


def others(points: Sequence[ScalingMeasurement], revealed: Sequence[int]) -> list[int]:
    """Places of all configs of which none of the revealed measurements is."""
    taken = {_same(points[place].config) for place in revealed}
    return [place for place, point in enumerate(points) if _same(point.config) not in taken]


def _nearest(
    points: Sequence[ScalingMeasurement], left: Sequence[int], wanted: tuple[int, ...], share: float
) -> int:
    away = {place: _apart(points[place].config.layout, wanted) for place in left}
    nearest = min(away.values())
    there = [place for place in left if away[place] <= nearest + 1e-9]
    batches = [log(points[place].config.local_batch) for place in there]
    aim = min(batches) + share * (max(batches) - min(batches))
    return there[int(np.argmin([abs(batch - aim) for batch in batches]))]


def _apart(layout: tuple[int, ...], wanted: tuple[int, ...]) -> float:
    ratios = (sum(layout) / sum(wanted), len(layout) / len(wanted), max(layout) / max(wanted))
    return sum(log(ratio) ** 2 for ratio in ratios)


def _same(config: TrainingConfig) -> tuple[tuple[int, ...], float]:
    """Key that is equal for measurements of the same config, with or without known nodes."""
    return config.layout, config.local_batch
