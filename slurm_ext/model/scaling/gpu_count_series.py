"""Scaling of runs that differ in their number of GPUs only, by their speed-up curve.

Beyond the largest of three counts or more, speedup.py is nearer than the general model.py, which
also has to allow for other batches and layouts: on published step times, from 1, 2 and 4 GPUs and
without a fitted family, its median error is 6 % against 31 (fixed global batch) and 6 against 9
(fixed batch a GPU, one node). With fewer counts model.py is as near, and its intervals are honest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isclose

from slurm_ext.core.records import Interval
from slurm_ext.model.scaling.model import ScalingMeasurement, Shares, TrainingConfig
from slurm_ext.model.scaling.speedup import CountMeasurement, SpeedupCurve, fit
from slurm_ext.model.scaling.speedup_terms import GPUS_EACH, GPUS_SPLIT, SpeedupPrior

ENOUGH = 3  # different counts
SAME = 0.01  # batches that differ by no more than this are one


@dataclass(frozen=True, slots=True)
class GpuCountSeries:
    """A speed-up curve with the methods of a ScalingModel; samples/s of the whole job."""

    speedup: SpeedupCurve

    def rate(self, config: TrainingConfig) -> tuple[float, Interval]:
        """Samples/s and interval at a number of GPUs, with the batch kept as in the runs."""
        return self.speedup.rate(config.gpus)

    def shares(self, config: TrainingConfig) -> Shares:
        """Parts of a step: computing, and waiting for each other."""
        return self.speedup.shares(config.gpus)


def gpu_count_series(
    points: Sequence[ScalingMeasurement], wanted: TrainingConfig
) -> GpuCountSeries | None:
    """Fit a series that `wanted` extends; None if the points are none. Raises InputError."""
    counts = {point.config.gpus for point in points}
    placed = [*(point.config for point in points), wanted]
    prior = _kind([point.config for point in points])
    if prior is None or len(counts) < ENOUGH or wanted.gpus <= max(counts):
        return None
    if not (
        all(config.nodes == 1 for config in placed)
        or all(config.nodes == config.gpus for config in placed)
    ):
        return None
    counted = [
        CountMeasurement(count=point.config.gpus, rate=point.samples_per_s) for point in points
    ]
    return GpuCountSeries(fit(counted, prior))


def _kind(configs: Sequence[TrainingConfig]) -> SpeedupPrior | None:
    """Prior for a constant global batch, or a constant batch per GPU; None if neither is."""
    if _same(configs, lambda config: config.gpus * config.local_batch):
        return GPUS_SPLIT
    return GPUS_EACH if _same(configs, lambda config: config.local_batch) else None


def _same(configs: Sequence[TrainingConfig], batch: Callable[[TrainingConfig], float]) -> bool:
    return all(isclose(batch(config), batch(configs[0]), rel_tol=SAME) for config in configs)
