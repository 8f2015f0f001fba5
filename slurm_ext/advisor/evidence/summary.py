"""Everything that a decision takes from the runs of one job's kind. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.model.throughput.evidence_checks import why_no_estimate

if TYPE_CHECKING:  # the model is imported with the first evidence: `predict` starts without it
    from slurm_ext.model.throughput.estimate import Estimate, Prior

Evidence = Mapping[Level, Sequence[LoaderRun]]
_OF_ITS_KIND = tuple(level for level in Level if level is not Level.CLUSTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSummary:
    """The estimate, or why there is none, and how the runs were made."""

    estimate: "Estimate | None"
    why_none: str  # empty: there is one
    usual_workers: int
    node_cores: int | None


def summarize(evidence: Evidence, prior: "Prior | None") -> EvidenceSummary:
    """The summary of the newest runs by level, with the serving model's prior."""
    estimated = _estimate(evidence, prior) if evidence or prior is not None else None
    return EvidenceSummary(
        estimate=estimated,
        why_none="" if estimated is not None else why_no_estimate(evidence),
        usual_workers=usual_workers(evidence),
        node_cores=node_cores_of(evidence),
    )


def _estimate(evidence: Evidence, prior: "Prior | None") -> "Estimate | None":
    from slurm_ext.model.throughput.estimate import estimate

    return estimate(evidence, prior)


def usual_workers(evidence: Evidence) -> int:
    """Workers that the script itself asks for, as its nearest and newest run saw them."""
    for level in _OF_ITS_KIND:
        for run in evidence.get(level, ()):
            return run.workers if run.user_workers is None else run.user_workers
    return 0


def node_cores_of(evidence: Evidence) -> int | None:
    """Cores that the machine of the nearest run really has, whatever slurm.conf says."""
    for level in Level:
        for run in evidence.get(level, ()):
            if run.node_cores:
                return run.node_cores
    return None
