"""Everything that a decision takes from the runs of one job's kind. Pure.

A job is changed by runs of its own user alone (or of its account, where the site says so): what
other users' jobs measured, and the prior that learned from everybody, answer only where those say
nothing, and such an answer is advice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from slurm_ext.advisor.evidence.objections import busy_cores, nearest_runs, refusal
from slurm_ext.core.records import OWN_LEVELS, POOLED_LEVELS, Level, LoaderRun
from slurm_ext.model.throughput.evidence_checks import why_no_estimate

if TYPE_CHECKING:  # the model is imported with the first evidence: `predict` starts without it
    from slurm_ext.model.throughput.estimate import Estimate, Prior

Evidence = Mapping[Level, Sequence[LoaderRun]]
Known = TypeVar("Known")
ACTING_LEVELS = {"user": OWN_LEVELS, "account": (*OWN_LEVELS, Level.ACCOUNT_KIND)}
"""Levels whose runs may change a job, by policy.evidence_of."""
_OF_ITS_KIND = tuple(level for level in Level if level is not Level.CLUSTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSummary:
    """The estimate, or why there is none, and how the runs were made."""

    estimate: "Estimate | None"
    why_none: str  # empty: there is one
    usual_workers: int
    node_cores: int | None
    of_others: bool = False  # the estimate needs other users' runs, or a model of them
    refused: int | None = None  # a LoaderRefusal: its workers stay as its script has them
    busy_cores: int | None = None  # that one task used; None: no CPU is taken away


def summarize(
    evidence: Evidence, prior: "Prior | None", own: Sequence[Level] = OWN_LEVELS
) -> EvidenceSummary:
    """The summary of the newest runs by level, with the serving model's prior.

    `own`: levels that are enough to change a job; the others answer where they are not.
    """
    mine = only(evidence, own)
    estimated = _estimate(mine, None) if mine else None
    if estimated is not None:
        return _summary(mine, estimated)
    every = only(evidence, (*own, *POOLED_LEVELS))
    return _summary(every, _estimate(every, prior) if every or prior else None, of_others=True)


def only(known: Mapping[Level, Known], levels: Iterable[Level]) -> dict[Level, Known]:
    """Leave out all other levels."""
    return {level: known[level] for level in levels if level in known}


def prior_of_others(
    evidence: Evidence, prior: "Prior | None", own: Sequence[Level]
) -> "Prior | None":
    """Pool other users' runs into ranges: no figure of a single run is in them."""
    from slurm_ext.model.throughput.estimate import Prior

    others = only(evidence, [level for level in evidence if level not in own])
    estimated = _estimate(others, prior) if any(others.values()) else None
    if estimated is None:
        return prior
    return Prior(accel=estimated.accel, wall=estimated.wall, cpu=estimated.cpu)


def _summary(
    evidence: Evidence, estimated: "Estimate | None", *, of_others: bool = False
) -> EvidenceSummary:
    return EvidenceSummary(
        estimate=estimated,
        why_none="" if estimated is not None else why_no_estimate(evidence),
        usual_workers=usual_workers(evidence),
        node_cores=node_cores_of(evidence),
        of_others=of_others,
        refused=refusal(evidence),
        busy_cores=busy_cores(nearest_runs(evidence)),
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
