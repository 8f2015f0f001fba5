"""Records of jobs that share a GPU or a node: a job alone, jobs together, predicted speeds.

Speed is relative to the job alone: T_solo / T_shared. 1.0 is no slowdown (slowdown = 1 / speed).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class SpeedBasis(StrEnum):
    """Source of a predicted speed, strongest first."""

    PAIR = "these two were measured together"
    COMPLETED = "each was measured beside others"
    COUNTERS = "its counters alone"
    PRIOR = "jobs in general"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoloProfile:
    """One job alone on its GPU or node. Its next run has the same `key` (core/job_keys.py)."""

    key: str
    features: Mapping[str, float] = field(default_factory=dict)  # absent: not measured, never 0
    mem_bytes: float | None = None
    gpu_mem_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorunMeasurement:
    """Measured speed of `job` while it ran beside `partners` for `seconds`."""

    job: str
    partners: tuple[str, ...]
    speed: float
    seconds: float
    device: str = "cpu"  # cpu, or the GPU's model
    owner: str = ""  # whose job it was: nobody has more than a share of what is pooled


@dataclass(frozen=True, slots=True, kw_only=True)
class RelativeSpeed:
    """Predicted speed of one job beside others: its mean, and the bound that protects the job."""

    mean: float
    low: float  # lower end of the 90 % interval: 95 of 100 outcomes lie above
    high: float
    evidence: SpeedBasis
    runs: int = 0  # measured pairs behind it
