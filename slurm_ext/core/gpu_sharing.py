"""The nouns of sharing one GPU or one node: a job alone, two jobs together, what is foretold.

Speed is always relative to the job alone: T_solo / T_shared, 1.0 is unhurt (slowdown = 1 / speed).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class SpeedBasis(StrEnum):
    """What a foretold speed rests on, strongest first."""

    PAIR = "these two were measured together"
    COMPLETED = "each was measured beside others"
    COUNTERS = "its counters alone"
    PRIOR = "jobs in general"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoloProfile:
    """One job by itself. `key` names what is the same in its next run (core/job_keys.py)."""

    key: str
    features: Mapping[str, float] = field(default_factory=dict)  # absent is not measured, never 0
    mem_bytes: float | None = None
    gpu_mem_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorunMeasurement:
    """Measured: `job` ran at `speed` of its own while beside `partners`, for `seconds`."""

    job: str
    partners: tuple[str, ...]
    speed: float
    seconds: float
    device: str = "cpu"  # cpu, or the GPU's model: what is shared differs between them


@dataclass(frozen=True, slots=True, kw_only=True)
class RelativeSpeed:
    """Foretold speed of one job beside others: the mean, and the bound that protects the job."""

    mean: float
    low: float  # 95 of 100 outcomes lie above: the lower end of the 90 % interval
    high: float
    evidence: SpeedBasis
    runs: int = 0  # measured pairs that it rests on
