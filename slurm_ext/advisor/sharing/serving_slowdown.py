"""The promoted model of slowdowns as the advisor holds it."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from slurm_ext.core.gpu_request import is_model
from slurm_ext.core.gpu_sharing import SoloProfile
from slurm_ext.policy.colocation.choose_pairs import SpeedPredictor


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownSnapshot:
    """A promoted model of slowdowns, and the jobs that it knows alone."""

    slowdowns: SpeedPredictor
    solos: Mapping[str, SoloProfile]  # by core/job_keys.job_signature
    devices: AbstractSet[str] = frozenset()  # that jobs were seen together on
    name: str = ""

    def device(self, kind: str) -> str:
        """The model's name of the GPU that Slurm calls `kind` (empty: no type)."""
        gpus = sorted(self.devices - {"cpu"})
        named = [device for device in gpus if kind and is_model(kind, device)]
        if named:
            return named[0]
        return kind or (gpus[0] if len(gpus) == 1 else "gpu")


def serving(models: Path, now: SlowdownSnapshot | None) -> SlowdownSnapshot | None:
    """`now` where it is still the promoted model, else the promoted one. Raises ModelError."""
    from slurm_ext.model.artifact_store import current
    from slurm_ext.model.slowdown.artifact import FOLDER, load  # only where somebody shares

    folder = current(models / FOLDER)
    if folder is None or (now is not None and folder.name == now.name):
        return now if folder is not None else None
    model = load(folder)
    return SlowdownSnapshot(
        slowdowns=model.slowdowns,
        solos=model.slowdowns.solos,
        devices=model.slowdowns.devices,
        name=model.name,
    )
