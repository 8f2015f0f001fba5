"""Rules that take GPUs from running jobs: which of two jobs is the more urgent now. Pure.

- Shortest left: true remaining time x GPUs, an oracle (SRTF weighted by GPUs).
- Least service: Tiresias' discretised 2D-LAS (Gu et al., NSDI '19). A job starts in the first class
  and sinks to the next when the GPU-seconds it has had pass a limit; within a class the earlier
  submission goes first. No duration is known. One limit (two classes), 16 GPU-hours, as in the
  baseline of the Pollux artifact; no promotion of starving jobs, as there.

Whoever was preempted loses RESTART_S at its next start (30 s, the Pollux artifact's figure).
"""

from dataclasses import dataclass
from math import inf

RESTART_S = 30.0
ROUNDING = 1e-3  # GPU-seconds: a limit that is so near counts as met, so that time always moves on


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempting:
    """Urgency of a job, from GPU-seconds."""

    limits: tuple[float, ...] | None  # of service had, between classes; None: what is left decides
    restart_s: float = RESTART_S

    @property
    def drifts(self) -> bool:
        """True if a running job grows more urgent all the time, and not at limits only."""
        return self.limits is None

    def key(self, had: float, left: float) -> float:
        """Lower is more urgent; ties go to the earlier submission."""
        if self.limits is None:
            return left
        return float(sum(had >= limit - ROUNDING for limit in self.limits))

    def until_next(self, had: float) -> float:
        """Service until the job sinks a class; infinite where it cannot."""
        if self.limits is None:
            return inf
        return min((limit - had for limit in self.limits if limit - had > ROUNDING), default=inf)


SHORTEST_LEFT = Preempting(limits=None)
LEAST_SERVICE = Preempting(limits=(16 * 3600.0,))
