"""Decide on one submission: Submission in, Recommendation out. Pure.

Mode, opt-out and what must be left alone come first; then what like runs say, the policy's choice,
and the floors below which a job is hurt; what the mode lets through is respond.py's. Where only
other users' runs say something, or earlier outcomes were not as predicted, `act` is `advise`.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from slurm_ext.advisor.evidence.summary import (
    ACTING_LEVELS,
    Evidence,
    EvidenceSummary,
    node_cores_of,
    summarize,
)
from slurm_ext.advisor.evidence.whole_run import WholeRun, whole_run_predictor
from slurm_ext.advisor.limits.bounds import PartitionRules, cpus_of, floor_for, limits_for
from slurm_ext.advisor.limits.eligible import (
    of_another_job,
    tunes_itself,
    why_not_edited,
    why_skipped,
)
from slurm_ext.core.records import (
    SCRIPT_LEVELS,
    Decision,
    Edits,
    Mode,
    Prediction,
    Shape,
    ShapeLimits,
    Submission,
)
from slurm_ext.core.settings.document import Settings

if TYPE_CHECKING:  # imported with the first evidence: `dlqueue predict` starts without them
    from slurm_ext.model.scaling.family import Family
    from slurm_ext.model.throughput.estimate import Estimate, Prior
    from slurm_ext.model.throughput.receiving import ReceiveTimes

_NO_EDITS = Edits()
_ALONE = WholeRun()


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
    decision = _loader_decision(
        job, context, summary, limits, least_cpus=least, workers_stay=workers_stay
    )
    proposed, text = _NO_EDITS, None
    if decision.action == "change":
        from slurm_ext.advisor.pipeline.edits import edits_for

        refused = workers_stay is not None
        on_cpu = estimated is not None and estimated.threads > 0
        proposed = edits_for(
            job, decision, context.rules, workers_stay=refused, threads_stay=not on_cpu
        )
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
    )


def predictor(
    estimated: "Estimate", context: DecisionContext, whole: WholeRun = _ALONE
) -> Callable[[Shape], Prediction]:
    """Shape to Prediction of the whole run, on machines such as like runs saw.

    Where Slurm does not keep jobs on cores of their own, each has its node's.
    """
    cores = node_cores_of(context.evidence)
    if context.roams and context.rules is not None:
        cores = cores or context.rules.cpus_per_node
    widths = context.factor, context.factor_beside
    return whole_run_predictor(estimated, cores, widths, whole, context.roams)


def _why_workers_stay(job: Submission, refused: int) -> str | None:
    """The refusal in a clause; None where the job itself lifts it."""
    from slurm_ext.core.findings.loader_refusal import LoaderRefusal, why_workers_stay

    lifted = refused == LoaderRefusal.SEEDS and job.env.get("DLQUEUE_SEEDED") == "allow"
    return None if lifted else why_workers_stay(refused)


def _loader_decision(
    job: Submission,
    context: DecisionContext,
    summary: EvidenceSummary,
    limits: ShapeLimits,
    **bounds: Any,
) -> Decision:
    """The policy's choice, or the reason why it was not asked."""
    before = Shape(cpus_per_task=cpus_of(job), num_workers=summary.usual_workers)
    settings, estimated = context.settings, summary.estimate
    why_not, least = why_not_edited(job), settings["policy.min_runs"]
    far = estimated is not None and estimated.level not in SCRIPT_LEVELS
    if estimated is None:
        why_not = why_not or summary.why_none
    elif estimated.runs < least:
        why_not = why_not or _too_few(estimated.runs, least)
    if why_not is not None or estimated is None:
        return Decision(action="leave", reason=str(why_not), before=before, after=before)
    from slurm_ext.advisor.evidence.worlds import Worlds, worlds_of
    from slurm_ext.policy import loader

    widths = context.factor, context.factor_beside
    predict = whole_run_predictor(estimated, summary.node_cores, widths, summary.whole)
    explicit = job.cpus_per_task is not None
    may_change = settings["policy.change_explicit"] if explicit else "any"
    if far and may_change == "any":  # no job gives up cores for what other arguments needed
        may_change = "grow"
    worlds = Worlds()
    if estimated.most_others or context.roams:
        worlds = worlds_of(
            estimated,
            summary.whole,
            node_cores=summary.node_cores or limits.node_cores,
            shared_by=before.cpus_per_task if context.roams else None,
        )
    chosen = loader.decide(
        before,
        predict,
        limits,
        target=settings["policy.target"],
        min_gain=settings["policy.min_gain"],
        # With unknown rules, the default memory per CPU and its maximum are unknown too. Beside
        # other jobs on its cores a job that waits is no job that needs fewer, or that more help.
        may_change_cpus="never" if context.rules is None or estimated.others else str(may_change),
        worker_rss_bytes=(estimated.worker_rss_bytes or 0) * summary.whole.per_task or None,
        worlds=worlds.rates,
        # A command that decides for one job starts sooner without numpy.
        rows=predict.rows if "numpy" in sys.modules else None,
        **bounds,
    )
    if chosen.action == "change" and chosen.after.cpus_per_task < before.cpus_per_task:
        chosen = _above_floor(chosen, floor_for(job, context.rules), predict)
    chosen = worlds.worth(chosen, settings["policy.min_gain"])
    if context.roams:
        chosen = _on_its_node(chosen, predictor(estimated, context, summary.whole))
    return worlds.told(chosen, *widths)


def _on_its_node(decision: Decision, predict: Callable[[Shape], Prediction]) -> Decision:
    """The decision with rates on all cores of the node, which is how the job will run."""
    before, after = predict(decision.before), predict(decision.after)
    return replace(decision, predicted_before=before, predicted_after=after)


def _too_few(runs: int, least: int) -> str:
    return f"I do not know yet: {runs} runs like this one, {least} are wanted"


def _above_floor(
    decision: Decision, floor: int, predict: Callable[[Shape], Prediction]
) -> Decision:
    """The decision with no fewer CPUs than the job's GPUs and memory need."""
    least = min(floor, decision.before.cpus_per_task)
    if decision.after.cpus_per_task >= least:
        return decision
    after = replace(decision.after, cpus_per_task=least)
    if after == decision.before:
        reason = "its GPUs or its memory need every CPU it asks for"
        return replace(decision, action="leave", reason=reason, after=after)
    return replace(decision, after=after, predicted_after=predict(after))
