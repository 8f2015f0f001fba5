"""Holds everything that a decision rests on beside the submission. Pure."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slurm_ext.advisor.evidence.summary import Evidence, EvidenceSummary
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.core.settings.document import Settings

if TYPE_CHECKING:  # imported with the first evidence: `dlqueue predict` starts without them
    from slurm_ext.model.scaling.family import Family
    from slurm_ext.model.throughput.estimate import Prior
    from slurm_ext.model.throughput.receiving import ReceiveTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """Everything that a decision rests on beside the submission."""

    settings: Settings
    evidence: Evidence = field(default_factory=dict)
    prior: "Prior | None" = None
    rules: PartitionRules | None = None  # None: the partition's are unknown
    factor: float = 1.0  # widens intervals on cores of its own (model/throughput/calibration.py)
    factor_beside: float = 1.0  # the same beside others on its cores
    stopped: str = ""  # why nothing acts on it (advisor/evidence/standing.py); empty: act
    family: "Family | None" = None  # how trainings of this site grow with GPUs
    receives: "ReceiveTimes" = ()  # by the user's other runs (model/throughput/receiving.py)
    summary: EvidenceSummary | None = None  # of the evidence; None: not made yet

    @property
    def roams(self) -> bool:
        """True if Slurm does not keep jobs on cores of their own here."""
        return self.rules is not None and not self.rules.keeps_cores
