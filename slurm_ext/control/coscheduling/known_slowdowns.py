"""The slowdown model that the training promoted last."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_ext.core.errors import ModelError
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile
from slurm_ext.model.artifact_store import current
from slurm_ext.model.slowdown.artifact import FOLDER, load
from slurm_ext.model.slowdown.model import SlowdownModel
from slurm_ext.policy.colocation.choose_pairs import SpeedPredictor

log = logging.getLogger("dlqueue.pairing")


@dataclass(frozen=True, slots=True)
class SlowdownsByKey:
    """The model's answers for jobs of which only the key is at hand."""

    slowdowns: SlowdownModel = field(default_factory=SlowdownModel)

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """As Slowdowns.speed, each job with what is known of it alone."""
        return self.slowdowns.speed(
            self._alone(job), [self._alone(other) for other in beside], device
        )

    def _alone(self, job: SoloProfile) -> SoloProfile:
        return self.slowdowns.solos.get(job.key, job)


class ServedSlowdowns:
    """The model in `<state_dir>/models/slowdown/current`; without one, jobs in general."""

    def __init__(self, state_dir: Path) -> None:
        self._models = state_dir / "models" / FOLDER
        self._folder: Path | None = None
        self._said = ""
        self._served = SlowdownsByKey()

    def __call__(self) -> SpeedPredictor:
        """The newest, asked for before each round; a damaged one is said, and the last one kept."""
        try:
            folder = current(self._models)
            if folder != self._folder:
                self._served, self._folder = (
                    SlowdownsByKey(load(folder).slowdowns) if folder else SlowdownsByKey(),
                    folder,
                )
                log.info("slowdowns: %s", folder.name if folder else "nothing is known any more")
            self._said = ""
        except ModelError as error:
            if str(error) != self._said:
                log.warning("%s; the earlier knowledge is kept", error)
            self._said = str(error)
        return self._served

    def held(self, key: str) -> float:
        """Bytes of memory that earlier runs of the job held at most; 0: not measured."""
        solo = self._served.slowdowns.solos.get(key)
        return (solo.mem_bytes or 0.0) if solo else 0.0
