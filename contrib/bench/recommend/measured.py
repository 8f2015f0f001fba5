"""Measured rates of trainings on three kinds of GPU, from Sia's published tables.

The clusters are named by their GPUs. A node type has 1 to 8 GPUs of one kind; a shape is so many of
them with the same number of GPUs each, as the tables measured it.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contrib.bench.common.arrays import Array
from contrib.bench.throughput.tables import read, site
from slurm_ext.training.scaling.rows import ScalingRow

GPUS = {"aws": "T4", "rtx": "RTX2080Ti", "dgx": "A100"}
# Dollars an hour of one GPU, on demand: g4dn.12xlarge 3.912 for four, p4d.24xlarge 32.77 for eight;
# the RTX 2080 Ti is in no cloud, and stands between by its peak rate.
PRICE = {"T4": 0.98, "RTX2080Ti": 1.5, "A100": 4.10}
PEAK = {"T4": 8.1, "RTX2080Ti": 13.4, "A100": 19.5}  # TFLOP/s in single precision, by data sheet
SIZES = {"T4": (1, 2, 4), "RTX2080Ti": (1, 2, 4, 8), "A100": (1, 2, 4, 8)}


@dataclass(frozen=True, slots=True)
class Place:
    """So many nodes with so many GPUs each."""

    gpu: str
    each: int
    nodes: int


class Measured:
    """Rates of one model by place and batch."""

    def __init__(self, rows: Sequence[ScalingRow]) -> None:
        found: dict[Place, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            config = row.measured.config
            if len(set(config.layout)) == 1:
                place = Place(row.cluster, config.layout[0], config.nodes)
                found[place][config.local_batch].append(row.measured.samples_per_s)
        self.by_place = {
            place: (np.array(sorted(batches)), _medians(batches))
            for place, batches in found.items()
        }

    def rate(self, place: Place, batch: float) -> float | None:
        """Samples/s, log-linear between measured batches; None outside of them."""
        if place not in self.by_place:
            return None
        batches, rates = self.by_place[place]
        if not batches[0] <= batch <= batches[-1]:
            return None
        return float(np.exp(np.interp(np.log(batch), np.log(batches), np.log(rates))))

    def batches(self, place: Place) -> list[float]:
        """Batches that were measured there."""
        return [float(one) for one in self.by_place[place][0]] if place in self.by_place else []


def read_rows(folder: Path) -> list[ScalingRow]:
    """Every row, its cluster named by its GPU. Raises InputError."""
    return [
        ScalingRow(model=row.model, cluster=GPUS[site(row.cluster)], measured=row.measured)
        for row in read(folder).rows
        if site(row.cluster) in GPUS
    ]


def _medians(batches: dict[float, list[float]]) -> Array:
    return np.array([float(np.median(batches[batch])) for batch in sorted(batches)])
