"""Chooses cores and workers of one submission's loader, with the rates for its user. Pure.

The policy searches the curve on cores of the job's own, within what its limits allow. The choice
has to hold in every world that the job may meet, above the floors below which a job is hurt, and
where its shape was measured, by that, too.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slurm_ext.advisor.evidence.summary import EvidenceSummary, node_cores_of
from slurm_ext.advisor.evidence.whole_run import (
    WholeRun,
    WholeRunPredictor,
    whole_run_predictor,
)
from slurm_ext.advisor.limits.bounds import cpus_of, floor_for, tasks_of
from slurm_ext.advisor.limits.eligible import why_not_edited, why_not_here
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.core.records import (
    SCRIPT_LEVELS,
    Decision,
    Prediction,
    Shape,
    ShapeLimits,
    Submission,
)

if TYPE_CHECKING:  # imported with the first evidence: `dlqueue predict` starts without them
    from slurm_ext.advisor.pipeline.context import DecisionContext
    from slurm_ext.model.throughput.estimate import Estimate

RAN_SLOWER = "in the shape that should be better it ran slower"
_ALONE = WholeRun()


def predictor(
    estimated: "Estimate", context: DecisionContext, whole: WholeRun = _ALONE
) -> WholeRunPredictor:
    """Shape to Prediction of the whole run, on machines such as like runs saw.

    Where Slurm does not keep jobs on cores of their own, each has its node's. A shape in which the
    script has run is told as it ran; the policy searches the curve, which errs alike in all shapes.
    """
    cores = node_cores_of(context.evidence)
    if context.roams and context.rules is not None:
        cores = cores or context.rules.cpus_per_node
    widths = context.factor, context.factor_beside
    return whole_run_predictor(
        estimated, cores, widths, whole, roams=context.roams, as_measured=True
    )


def loader_choice(
    job: Submission,
    context: DecisionContext,
    summary: EvidenceSummary,
    limits: ShapeLimits,
    **bounds: Any,
) -> Decision:
    """The policy's choice, or the reason why it was not asked."""
    before = Shape(cpus_per_task=cpus_of(job), num_workers=summary.usual_workers)
    settings, estimated = context.settings, summary.estimate
    why_not = why_not_edited(job) or why_not_here(job, context.rules)
    least = settings["policy.min_runs"]
    far = estimated is not None and estimated.level not in SCRIPT_LEVELS
    if estimated is None:
        why_not = why_not or summary.why_none
    elif estimated.runs < least:
        why_not = why_not or _too_few(estimated.runs, least)
    elif summary.whole.ranks < tasks_of(job):  # -n 8 for eight cores of one process
        why_not = why_not or "it has more tasks than training processes"
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
    told = predictor(estimated, context, summary.whole)
    chosen = _as_told(chosen, told, settings["policy.target"])
    return worlds.told(chosen, *widths)


def _as_told(decision: Decision, predict: WholeRunPredictor, target: float) -> Decision:
    """The decision with the rates for its user; a change that ran slower is left."""
    if decision.predicted_after is None:
        return decision
    before, after = predict(decision.before), predict(decision.after)
    slower = after.samples_per_s < target * before.samples_per_s
    if slower and decision.action == "change" and predict.ran(decision.after):
        decision = replace(decision, action="leave", reason=RAN_SLOWER, after=decision.before)
        after = before
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
