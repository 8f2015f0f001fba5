"""Decide on one submission: Submission in, Recommendation out. Pure.

Mode, opt-out and what must be left alone come first; then what like runs say, the policy's choice,
and the floors below which a job is hurt; what the mode lets through is respond.py's. Where only
other users' runs say something, or earlier outcomes were not as predicted, `act` is `advise`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slurm_ext.advisor.evidence.summary import (
    ACTING_LEVELS,
    summarize,
)
from slurm_ext.advisor.evidence.whole_run import WholeRun
from slurm_ext.advisor.limits.bounds import cpus_of, limits_for
from slurm_ext.advisor.limits.eligible import (
    of_another_job,
    tunes_itself,
    why_skipped,
)
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.images import runs_an_image
from slurm_ext.advisor.pipeline.loader_choice import loader_choice
from slurm_ext.core.records import (
    Decision,
    Edits,
    Mode,
    ShapeLimits,
    Submission,
)

if TYPE_CHECKING:  # imported with the first evidence: `dlqueue predict` starts without them
    from slurm_ext.model.throughput.estimate import Estimate

_NO_EDITS = Edits()
_ALONE = WholeRun()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Decision on a submission before it has a token; valid as long as its context is."""

    mode: Mode
    why: str
    decision: Decision | None = None  # None: nothing at all, and nothing is recorded
    proposed: Edits = _NO_EDITS  # what `act` would do
    message: str | None = None
    estimate: "Estimate | None" = None
    limits: ShapeLimits | None = None
    of_others: bool = False  # as EvidenceSummary's: nothing is changed
    why_advice: str = ""  # the same
    factor: float = 1.0  # as DecisionContext's
    factor_beside: float = 1.0  # the same
    stopped: str = ""  # why mode act became advise; empty: it did not
    workers_stay: str | None = None  # why its workers cannot be moved
    least_cpus: int = 1  # of a task: fewer are never advised
    whole: WholeRun = _ALONE  # what its run takes beside the steady batches
    unmarked: Mapping[str, str] = field(default_factory=dict)  # marks of another job, emptied
    tunes: bool = False  # its loaders find their own workers while they run
    runs_an_image: bool = False  # with a PYTHONPATH that the probe's would replace


def decide(job: Submission, context: DecisionContext) -> Recommendation:
    """The estimate, the choice and the message; nothing in it is of this one submission only."""
    mode = context.settings.mode_for(job.partition, job.account)
    why = "the mode here is off" if mode is Mode.OFF else why_skipped(job)
    if why is not None:
        return Recommendation(mode=mode, why=why)
    own = ACTING_LEVELS[context.settings["policy.evidence_of"]]
    summary = context.summary or summarize(
        context.evidence, context.prior, own, job, context.receives
    )
    estimated = summary.estimate
    of_others = summary.of_others and estimated is not None
    advice = "by other users' runs" if of_others else summary.why_advice
    stopped = context.stopped if mode is Mode.ACT and not advice else ""
    if mode is Mode.ACT and (advice or stopped):
        mode = Mode.ADVISE
    limits = limits_for(job, context.rules, context.settings["policy.max_workers"])
    workers_stay = None if summary.refused is None else _why_workers_stay(job, summary.refused)
    least = min(cpus_of(job), summary.busy_cores or cpus_of(job))
    decision = loader_choice(
        job, context, summary, limits, least_cpus=least, workers_stay=workers_stay
    )
    proposed, text = _NO_EDITS, None
    if decision.action == "change":
        from slurm_ext.advisor.pipeline.edits import edits_for, most_threads

        refused = workers_stay is not None
        threads = None if context.roams else most_threads(job, decision, summary)
        proposed = edits_for(job, decision, context.rules, workers_stay=refused, threads=threads)
    if estimated is not None:
        from slurm_ext.advisor.pipeline.message import message

        text = message(
            decision,
            mode,
            emulated=estimated.emulated,
            why_advice=advice,
            stopped=stopped,
            ranks=summary.whole.ranks,
        )
    return Recommendation(
        mode=mode,
        why=decision.reason,
        decision=decision,
        proposed=proposed,
        message=text,
        estimate=estimated,
        limits=limits,
        of_others=of_others,
        why_advice=summary.why_advice,
        factor=context.factor,
        factor_beside=context.factor_beside,
        stopped=stopped,
        workers_stay=workers_stay,
        least_cpus=least,
        whole=summary.whole,
        unmarked=dict.fromkeys(of_another_job(job), ""),
        tunes=tunes_itself(job, context.settings),
        runs_an_image=runs_an_image(job.script),
    )


def _why_workers_stay(job: Submission, refused: int) -> str | None:
    """The refusal in a clause; None where the job itself lifts it."""
    from slurm_ext.core.findings.loader_refusal import LoaderRefusal, why_workers_stay

    lifted = refused == LoaderRefusal.SEEDS and job.env.get("DLQUEUE_SEEDED") == "allow"
    return None if lifted else why_workers_stay(refused)
