"""Everything that a decision takes from the runs of one job's kind. Pure.

A job is changed by runs of its own user alone (or of its account, where the site says so): what
other users' jobs measured, and the prior that learned from everybody, answer only where those say
nothing, and such an answer is advice. So is one by runs of other arguments that do not agree.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import TYPE_CHECKING, TypeVar

from slurm_ext.advisor.evidence.alike import (
    alike,
    array_differs,
    why_none_left,
    why_not_acting,
)
from slurm_ext.advisor.evidence.job_ranks import ranks_by_others
from slurm_ext.advisor.evidence.objections import busy_cores, nearest_runs, refusal
from slurm_ext.advisor.evidence.whole_run import WholeRun, whole_run_of
from slurm_ext.core.gpu_request import tasks_of
from slurm_ext.core.records import OWN_LEVELS, POOLED_LEVELS, Level, LoaderRun, Submission
from slurm_ext.model.throughput.evidence_checks import (
    evidence_flag,
    usable_runs,
    what_differs,
    why_no_estimate,
)

if TYPE_CHECKING:  # the model is imported with the first evidence: `predict` starts without it
    from slurm_ext.model.throughput.estimate import Estimate, Prior
    from slurm_ext.model.throughput.receiving import ReceiveTimes

Evidence = Mapping[Level, Sequence[LoaderRun]]
Known = TypeVar("Known")
ACTING_LEVELS = {"user": OWN_LEVELS, "account": (*OWN_LEVELS, Level.ACCOUNT_KIND)}
"""Levels whose runs may change a job, by policy.evidence_of."""
AGREEING = 3  # newest runs that answer where older ones contradict them
_ANY_JOB = Submission()
_ALONE = WholeRun()
_OF_ITS_KIND = tuple(level for level in Level if level is not Level.CLUSTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSummary:
    """The estimate, or why there is none, and how the runs were made."""

    estimate: "Estimate | None"
    why_none: str  # empty: there is one
    usual_workers: int
    node_cores: int | None
    whole: WholeRun = _ALONE  # what such a run takes beside its steady batches
    of_others: bool = False  # the estimate needs other users' runs, or a model of them
    refused: int | None = None  # a LoaderRefusal: its workers stay as its script has them
    busy_cores: int | None = None  # that one task used; None: no CPU is taken away
    why_advice: str = ""  # why the user's own runs change nothing; empty: they may


def summarize(
    evidence: Evidence,
    prior: "Prior | None",
    own: Sequence[Level] = OWN_LEVELS,
    job: Submission = _ANY_JOB,
    receives: "ReceiveTimes" = (),
) -> EvidenceSummary:
    """The summary of the newest runs by level that are like `job`, with the serving model's prior.

    `own`: levels that are enough to change a job; the others answer where they are not. `receives`:
    what its user's other runs show of receiving batches.
    """
    if not evidence and prior is None:
        why = why_no_estimate(evidence)
        return EvidenceSummary(estimate=None, why_none=why, usual_workers=0, node_cores=None)
    if array_differs(evidence, job):
        return _none(evidence, f"the tasks of its array differ: {what_differs(_nearest(evidence))}")
    near = alike(evidence, job)
    mine = only(near.evidence, own)
    estimated = (_estimate(mine, None, receives) or _of_newest(mine, receives)) if mine else None
    if estimated is not None:
        why = why_not_acting(estimated.level, usable_runs(mine[estimated.level]))
        wider = _widened(estimated, near.accel_sd)
        return replace(_summary(mine, wider, tasks_of(job)), why_advice=why)
    every = only(near.evidence, (*own, *POOLED_LEVELS))
    estimated = _estimate(every, prior, receives) if every or prior else None
    if estimated is not None:
        wider = _widened(estimated, near.accel_sd)
        others = _nearest(only(every, POOLED_LEVELS))
        ranks = ranks_by_others(job, _nearest(mine), others)
        tasks = tasks_of(job)
        whole = WholeRun(ranks, per_task=-(-ranks // tasks))
        return replace(_summary(every, wider, tasks), of_others=True, whole=whole)
    why = why_none_left(only(evidence, own), job) or ""
    return _none(every, f"I do not know yet: {why}" if why else why_no_estimate(every))


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


def _summary(evidence: Evidence, estimated: "Estimate", tasks: int) -> EvidenceSummary:
    whole = whole_run_of(evidence.get(estimated.level, ()), tasks)
    return replace(_none(evidence, ""), estimate=estimated, whole=whole)


def _none(evidence: Evidence, why: str) -> EvidenceSummary:
    return EvidenceSummary(
        estimate=None,
        why_none=why,
        usual_workers=usual_workers(evidence),
        node_cores=node_cores_of(evidence),
        refused=refusal(evidence),
        busy_cores=busy_cores(nearest_runs(evidence)),
    )


def _widened(estimated: "Estimate", accel_sd: float) -> "Estimate":
    if not accel_sd:
        return estimated
    accel = replace(estimated.accel, log_sd=hypot(estimated.accel.log_sd, accel_sd))
    # Its runs had other GPUs: a rate that they measured is none of these.
    return replace(estimated, accel=accel, measured=())


def _nearest(evidence: Evidence) -> Sequence[LoaderRun]:
    return next((evidence[level] for level in _OF_ITS_KIND if evidence.get(level)), ())


def _of_newest(evidence: Evidence, receives: "ReceiveTimes") -> "Estimate | None":
    """The estimate of the newest runs of the nearest level, as older ones are of another time."""
    level = next((level for level in _OF_ITS_KIND if usable_runs(evidence.get(level, ()))), None)
    if level is None or evidence_flag(evidence) is not None:
        return None
    newest = usable_runs(evidence[level])[:AGREEING]
    return _estimate({level: newest}, None, receives) if len(newest) == AGREEING else None


def _estimate(
    evidence: Evidence, prior: "Prior | None", receives: "ReceiveTimes" = ()
) -> "Estimate | None":
    from slurm_ext.model.throughput.estimate import estimate

    return estimate(evidence, prior, receives)


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
