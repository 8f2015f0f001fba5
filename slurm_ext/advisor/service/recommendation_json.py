"""A Recommendation as plain JSON values: printed by `predict`, sent by the advisor. Pure.

Schema (version 1): mode, eligible, action (change | leave | none), why, before and after
({cpus_per_task, num_workers} or null), predicted_before and predicted_after (see `_prediction`),
ranks (training processes: all rates are of the whole job and its whole run),
proposed (the edits that `act` would make), level, runs, emulated, of_others (whether it needs other
users' runs: nothing is changed), why_advice (why the user's own runs change nothing, or null),
stopped (why outcomes keep `act` from changing it, or null), opt_out, curve: a list of
{num_workers, cpus_per_task, samples_per_s, low, high} at the chosen CPUs, maximum and knee (such
points: the most within the job's limits, and the smallest shape that reaches 95 % of it; or null),
bottleneck (a word of core/advice/words.py, of the job as it would run), next (what to do of it),
advice (the one behind it, core/advice/advice.py; or null), workers_stay (why no other workers can
be given to it: curve, maximum and knee are of its own; or null) and
sharing (sharing_terms.py's Shared.as_json, or null: no GPU, no consent, off, or no advisor asked),
buckets (advisor/buckets/decision.py's as_json, or null: off, or no advisor asked),
run_time: {median_s, mean_s, low_s, high_s, runs, like} (model/duration/predictor.py), or null.
"""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from slurm_ext.advisor.limits.eligible import OPT_OUT
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.decide import Recommendation
from slurm_ext.advisor.pipeline.loader_choice import predictor
from slurm_ext.core.records import Edits, Prediction, Shape

if TYPE_CHECKING:
    from slurm_ext.advisor.buckets.decision import BucketDecision
    from slurm_ext.advisor.sharing.terms import SharingDecision
    from slurm_ext.core.advice.advice import Advice
    from slurm_ext.model.duration.predictor import RuntimePrediction

MOST_POINTS = 33
ENOUGH_WORKERS = "more workers bring no more within its limits"


def recommendation_json(
    context: DecisionContext,
    recommendation: Recommendation,
    sharing: "SharingDecision | None" = None,
    runtime: "RuntimePrediction | None" = None,
    buckets: "BucketDecision | None" = None,
) -> dict[str, Any]:
    """Everything that a person may want to know about a recommendation."""
    decision, estimated = recommendation.decision, recommendation.estimate
    ranks = recommendation.whole.ranks
    return {
        "mode": recommendation.mode.value,
        "eligible": decision is not None,
        "action": decision.action if decision else "none",
        "why": recommendation.why,
        "before": asdict(decision.before) if decision else None,
        "after": asdict(decision.after) if decision else None,
        "predicted_before": _prediction(decision.predicted_before if decision else None, ranks),
        "predicted_after": _prediction(decision.predicted_after if decision else None, ranks),
        "ranks": ranks,
        "proposed": edits_json(recommendation.proposed),
        "level": estimated.level.value if estimated else None,
        "runs": estimated.runs if estimated else 0,
        "emulated": estimated.emulated if estimated else None,
        "of_others": recommendation.of_others,
        "stopped": recommendation.stopped or None,
        "workers_stay": recommendation.workers_stay,
        "why_advice": recommendation.why_advice or None,
        "opt_out": f"--comment={OPT_OUT}",
        "sharing": None if sharing is None else sharing.as_json(done=False),
        "buckets": None if buckets is None else buckets.as_json(done=False),
        "run_time": _runtime(runtime),
        "curve": _curve(context, recommendation),
        **_reach(context, recommendation),
    }


def edits_json(edits: Edits) -> dict[str, Any]:
    """The fields that are set, without those that are left alone."""
    return {name: value for name, value in asdict(edits).items() if value not in (None, {})}


def _runtime(runtime: "RuntimePrediction | None") -> dict[str, Any] | None:
    if runtime is None:
        return None
    from slurm_ext.advisor.what_if.runtime_estimates import runtime_json

    return runtime_json(runtime)


def _curve(context: DecisionContext, recommendation: Recommendation) -> list[dict[str, float]]:
    """Samples/s over workers at the chosen CPUs, from the predictions that the policy used."""
    estimated, decision = recommendation.estimate, recommendation.decision
    if estimated is None or decision is None or recommendation.limits is None:
        return []
    predict = predictor(estimated, context, recommendation.whole)
    cpus = decision.after.cpus_per_task
    most = max(decision.after.num_workers, decision.before.num_workers, cpus)
    top = min(recommendation.limits.max_workers, max(4, 2 * most), MOST_POINTS - 1)
    stay = recommendation.workers_stay is not None
    counts = (decision.before.num_workers,) if stay else range(top + 1)
    shapes = (Shape(cpus_per_task=cpus, num_workers=workers) for workers in counts)
    return [_point(predict(shape), recommendation.whole.ranks) for shape in shapes]


def _reach(context: DecisionContext, recommendation: Recommendation) -> dict[str, Any]:
    """Maximum and knee within the job's limits, the bottleneck, and what to do about it."""
    estimated, limits = recommendation.estimate, recommendation.limits
    decision = recommendation.decision
    if estimated is None or decision is None or limits is None:
        return dict.fromkeys(("maximum", "knee", "bottleneck", "next", "advice"))
    from slurm_ext.advisor.evidence.summary import node_cores_of
    from slurm_ext.core.advice.advice import as_json
    from slurm_ext.model.throughput.bottleneck import diagnose
    from slurm_ext.policy.max_and_knee import peak

    whole = recommendation.whole
    rss_bytes = (estimated.worker_rss_bytes or 0) * whole.per_task or None
    predict = predictor(estimated, context, whole)
    own = None if recommendation.workers_stay is None else decision.before.num_workers
    cpus = decision.after.cpus_per_task if context.roams else None
    points = peak(predict, limits, worker_rss_bytes=rss_bytes, own_workers=own, own_cpus=cpus)
    cores = node_cores_of(context.evidence)
    processes = whole.per_task
    advice = diagnose(estimated, decision.after, limits, node_cores=cores, processes=processes)
    advice = agreeing(advice, decision.after, points.maximum.shape)
    return {
        "maximum": _point(points.maximum, whole.ranks),
        "knee": _point(points.knee, whole.ranks),
        "bottleneck": advice.word,
        "next": advice.next,
        "advice": as_json(advice) if advice.share else None,
    }


def agreeing(advice: "Advice", after: Shape, maximum: Shape) -> "Advice":
    """The advice with no more workers than the maximum that is printed beside it."""
    from slurm_ext.core.advice.options import option_of

    most = maximum.num_workers
    if not advice.action.startswith(("more_workers", "load_in")) or (advice.value or 0) <= most:
        return advice
    if after.num_workers >= most:
        return replace(advice, next=ENOUGH_WORKERS, share=0.0)
    fewer = replace(advice, value=most, option="")
    return replace(fewer, option=option_of(fewer, ()))


def _point(prediction: Prediction, ranks: int) -> dict[str, float]:
    return {
        **asdict(prediction.shape),
        "samples_per_s": ranks * prediction.samples_per_s,
        "low": ranks * prediction.interval.low,
        "high": ranks * prediction.interval.high,
    }


def _prediction(prediction: Prediction | None, ranks: int) -> dict[str, Any] | None:
    if prediction is None:
        return None
    told = prediction.times(ranks)
    other = told.elsewhere
    return {
        "samples_per_s": told.samples_per_s,
        "interval": [told.interval.low, told.interval.high],
        "interval_level": told.interval.level,
        "bottleneck": told.bottleneck,
        "alone_samples_per_s": other.samples_per_s if other and told.crowded else None,
        "elsewhere": other
        and {
            "samples_per_s": other.samples_per_s,
            "interval": [other.interval.low, other.interval.high],
            "crowded": other.crowded,
        },
    }
