"""Whether `model/` answers from a folder as the family itself that was written there."""

from pathlib import Path

import numpy as np

from slurm_ext.core.errors import ModelError
from slurm_ext.model.scaling.artifact import load
from slurm_ext.model.scaling.family import Family
from slurm_ext.model.scaling.model import ScalingMeasurement, TrainingConfig, fit

CLOSE = 1e-9  # of log rates
ASKED = tuple(
    TrainingConfig(gpus=gpus, nodes=nodes, local_batch=batch)
    for gpus, nodes in ((1, 1), (4, 1), (4, 2), (32, 8))
    for batch in (8.0, 64.0, 1024.0)
)


def check(family: Family, folder: Path) -> None:
    """Raises ModelError unless `folder`, read back, answers as `family` does."""
    off = difference(family, load(folder))
    if not off <= CLOSE:
        raise ModelError(f"read back, it answers {off:.1g} (log) away; not promoted")


def difference(one: Family, other: Family) -> float:
    """Largest difference of their log rates and interval ends, for known and unknown trainings."""
    seen = [ScalingMeasurement(config=ASKED[0], samples_per_s=100.0)]
    off = 0.0
    for model in (one.models[0], "unseen"):
        for cluster in (one.clusters[0], "unseen"):
            told = [
                fit(seen, f.prior(model=model, cluster=cluster)).rates(ASKED) for f in (one, other)
            ]
            off = max(off, float(np.abs(np.log(told[0]) - np.log(told[1])).max()))
    return off
