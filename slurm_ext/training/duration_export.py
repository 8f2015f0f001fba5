"""Writes a duration model for `model/`, if what is read back answers as the model itself."""

import shutil
import tempfile
from pathlib import Path

import numpy as np

from slurm_ext.facts.errors import ModelError
from slurm_ext.model.duration_artifact import Artifact, load, pack
from slurm_ext.training.duration import Array

CLOSE = 1e-9  # of log durations


def export(artifact: Artifact, folder: Path, rows: Array) -> None:
    """Write to `folder`, which must not exist; `rows` (features) are asked of both.

    Raises ModelError, and leaves nothing, where it is there or reads back as another model.
    """
    if folder.exists():
        raise ModelError(f"{folder}: is there already; a model is never overwritten")
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, data in pack(artifact).items():
            (making / name).write_bytes(data)
        off = difference(artifact, load(making), rows)
        if not off <= CLOSE:
            raise ModelError(f"{folder}: read back, it answers {off:.1g} (log) away; not exported")
        making.chmod(0o755)  # weights are no secret, and who trains is not who serves
        making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def difference(one: Artifact, other: Artifact, rows: Array) -> float:
    """Largest difference of log means and bounds, jobs of which nothing is known included."""
    asked = np.vstack([rows, np.full((1, rows.shape[1]), np.nan)])
    told, again = (artifact.durations.foretell(asked) for artifact in (one, other))
    ends = ("log_mean", "log_low", "log_high")
    off = max(float(np.abs(getattr(told, end) - getattr(again, end)).max()) for end in ends)
    moved = np.abs(
        np.subtract([*one.bounds.low, *one.bounds.high], [*other.bounds.low, *other.bounds.high])
    )
    return max(off, float(moved.max()))
