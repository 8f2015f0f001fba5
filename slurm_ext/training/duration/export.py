"""Whether `model/` answers from a folder as the duration model itself that was written there."""

from pathlib import Path

import numpy as np

from slurm_ext.core.errors import ModelError
from slurm_ext.model.duration.artifact import DurationArtifact, load
from slurm_ext.training.duration.fit import Array

CLOSE = 1e-9  # of log durations


def check(artifact: DurationArtifact, folder: Path, rows: Array) -> None:
    """Raises ModelError unless `folder`, read back, answers as `artifact` does about `rows`."""
    off = difference(artifact, load(folder), rows)
    if not off <= CLOSE:
        raise ModelError(f"read back, it answers {off:.1g} (log) away; not promoted")


def difference(one: DurationArtifact, other: DurationArtifact, rows: Array) -> float:
    """Largest difference of log means and bounds, jobs of which nothing is known included."""
    asked = np.vstack([rows, np.full((1, rows.shape[1]), np.nan)])
    told, again = (artifact.durations.predict(asked) for artifact in (one, other))
    ends = ("log_mean", "log_low", "log_high")
    off = max(float(np.abs(getattr(told, end) - getattr(again, end)).max()) for end in ends)
    moved = np.abs(
        np.subtract([*one.bounds.low, *one.bounds.high], [*other.bounds.low, *other.bounds.high])
    )
    return max(off, float(moved.max()))
