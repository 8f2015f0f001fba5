"""The serving model's word on one submission, remembered for those that come again."""

from collections.abc import Mapping
from pathlib import Path

from slurm_ext.core.gpu_request import devices_per_node
from slurm_ext.core.records import Level, Submission
from slurm_ext.model.artifact_store import current
from slurm_ext.model.throughput.artifact import PriorArtifact, load
from slurm_ext.model.throughput.estimate import Prior
from slurm_ext.model.throughput.features import PriorInput

_MOST_PRIORS = 1024  # each under two texts of a job


class Priors:
    """Priors of one artifact; without one, nobody has a prior."""

    def __init__(self, artifact: PriorArtifact | None = None) -> None:
        self._artifact = artifact
        self._priors: dict[tuple[object, ...], Prior] = {}
        self.name = None if artifact is None else artifact.name  # for the ledger

    def prior_of(self, job: Submission, keys: Mapping[Level, int]) -> Prior | None:
        """The model's estimate from the submission alone; None without a model."""
        if self._artifact is None:
            return None
        gpus = devices_per_node(job)
        mark = (job.user_name, job.partition, gpus, *keys.items())
        prior = self._priors.get(mark)
        if prior is None:
            if len(self._priors) >= _MOST_PRIORS:
                self._priors.clear()
            known = PriorInput(user=job.user_name, partition=job.partition, gpus=gpus, keys=keys)
            prior = self._priors[mark] = self._artifact.prior(known)
        return prior


def serving(models: Path, now: Priors) -> Priors:
    """`now` where it is still the promoted artifact, else the promoted one. Raises ModelError."""
    folder = current(models)
    if folder is None:
        return now if now.name is None else Priors()
    return now if folder.name == now.name else Priors(load(folder))
