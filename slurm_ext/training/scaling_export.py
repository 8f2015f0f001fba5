"""Writes a family for `model/`, if `model/` answers from what was written as the family itself."""

import shutil
import tempfile
from pathlib import Path

import numpy as np

from slurm_ext.facts.errors import ModelError
from slurm_ext.model.scaling import Config, Measured, fit
from slurm_ext.model.scaling_artifact import load, pack
from slurm_ext.model.scaling_family import Family

CLOSE = 1e-9  # of log rates
ASKED = tuple(
    Config(gpus=gpus, nodes=nodes, local_batch=batch)
    for gpus, nodes in ((1, 1), (4, 1), (4, 2), (32, 8))
    for batch in (8.0, 64.0, 1024.0)
)


def export(family: Family, folder: Path) -> None:
    """Write the family to `folder`, which must not exist. Raises ModelError and leaves nothing."""
    if folder.exists():
        raise ModelError(f"{folder}: is there already; a model is never overwritten")
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, data in pack(family).items():
            (making / name).write_bytes(data)
        off = difference(family, load(making))
        if not off <= CLOSE:
            raise ModelError(f"{folder}: read back, it answers {off:.1g} (log) away; not exported")
        making.chmod(0o755)  # weights are no secret, and who trains is not who serves
        making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def difference(one: Family, other: Family) -> float:
    """Largest difference of their log rates and interval ends, for known and unknown trainings."""
    seen = [Measured(config=ASKED[0], samples_per_s=100.0)]
    off = 0.0
    for model in (one.models[0], "unseen"):
        for cluster in (one.clusters[0], "unseen"):
            told = [
                fit(seen, f.prior(model=model, cluster=cluster)).rates(ASKED) for f in (one, other)
            ]
            off = max(off, float(np.abs(np.log(told[0]) - np.log(told[1])).max()))
    return off
