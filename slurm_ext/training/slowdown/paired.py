"""One measured pair of jobs, as the counter model is fitted to it."""

from dataclasses import dataclass

from slurm_ext.core.gpu_sharing import SoloProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class PairExample:
    """`job` measured at `speed` of its own beside `beside`; a family is what is left out whole."""

    job: SoloProfile
    beside: SoloProfile
    speed: float
    family: str
    beside_family: str
