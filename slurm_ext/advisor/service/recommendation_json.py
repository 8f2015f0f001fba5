"""A Thought as plain JSON values: what `predict` prints and the advisor replies to it. Pure.

Schema (version 1): mode, eligible, action (change | leave | none), why, before and after
({cpus_per_task, num_workers} or null), predicted_before and predicted_after (see `_prediction`),
proposed (the edits that `act` would make), level, runs, emulated, opt_out, curve: a list of
{num_workers, cpus_per_task, samples_per_s, low, high} at the chosen CPUs, maximum and knee (such
points: the most within the job's limits, and the smallest shape that reaches 95 % of it; or null),
bottleneck (a word of model/throughput/bottleneck.py, of the job as it would run), next (what to do
of it) and
sharing (sharing_terms.py's Shared.as_json, or null: no GPU, no consent, off, or no advisor asked),
run_time: {mean_s, low_s, high_s, runs, like} (model/duration/predictor.py's Length; null: no
model).
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from slurm_ext.advisor.evidence.summary import node_cores_of
from slurm_ext.advisor.limits.eligible import OPT_OUT
from slurm_ext.advisor.pipeline.decide import (
    DecisionContext,
    Recommendation,
    predictor,
)
from slurm_ext.advisor.sharing.terms import SharingDecision
from slurm_ext.advisor.what_if.runtime_estimates import runtime_json
from slurm_ext.core.records import Edits, Prediction, Shape
from slurm_ext.model.throughput.diagnosis import diagnose
from slurm_ext.policy.max_and_knee import peak

if TYPE_CHECKING:
    from slurm_ext.model.duration.predictor import RuntimePrediction

MOST_POINTS = 33


def recommendation_json(
    known: DecisionContext,
    given: Recommendation,
    shared: SharingDecision | None = None,
    length: "RuntimePrediction | None" = None,
) -> dict[str, Any]:
    """Everything that a person may want to know about it."""
    decision, believed = given.decision, given.estimate
    return {
        "mode": given.mode.value,
        "eligible": decision is not None,
        "action": decision.action if decision else "none",
        "why": given.why,
        "before": asdict(decision.before) if decision else None,
        "after": asdict(decision.after) if decision else None,
        "predicted_before": _prediction(decision.predicted_before if decision else None),
        "predicted_after": _prediction(decision.predicted_after if decision else None),
        "proposed": edits_said(given.proposed),
        "level": believed.level.value if believed else None,
        "runs": believed.runs if believed else 0,
        "emulated": believed.emulated if believed else None,
        "opt_out": f"--comment={OPT_OUT}",
        "sharing": None if shared is None else shared.as_json(done=False),
        "run_time": runtime_json(length),
        "curve": _curve(known, given),
        **_reach(known, given),
    }


def edits_said(edits: Edits) -> dict[str, Any]:
    """The fields that are set, without those that are left alone."""
    return {name: value for name, value in asdict(edits).items() if value not in (None, {})}


def _curve(known: DecisionContext, given: Recommendation) -> list[dict[str, float]]:
    """Samples/s over workers at the chosen CPUs, from the predictions that the policy used."""
    if given.estimate is None or given.decision is None or given.limits is None:
        return []
    at = predictor(given.estimate, known)
    cpus = given.decision.after.cpus_per_task
    most = max(given.decision.after.num_workers, given.decision.before.num_workers, cpus)
    top = min(given.limits.max_workers, max(4, 2 * most), MOST_POINTS - 1)
    shapes = (Shape(cpus_per_task=cpus, num_workers=workers) for workers in range(top + 1))
    return [_point(at(shape)) for shape in shapes]


def _reach(known: DecisionContext, given: Recommendation) -> dict[str, Any]:
    """How far the job could come, and what is in its way."""
    believed, limits = given.estimate, given.limits
    if believed is None or given.decision is None or limits is None:
        return dict.fromkeys(("maximum", "knee", "bottleneck", "next"))
    found = peak(predictor(believed, known), limits, worker_rss_bytes=believed.worker_rss_bytes)
    cores = node_cores_of(known.evidence)
    advice = diagnose(believed, given.decision.after, limits, node_cores=cores)
    return {
        "maximum": _point(found.maximum),
        "knee": _point(found.knee),
        "bottleneck": advice.word,
        "next": advice.next,
    }


def _point(prediction: Prediction) -> dict[str, float]:
    return {
        **asdict(prediction.shape),
        "samples_per_s": prediction.samples_per_s,
        "low": prediction.interval.low,
        "high": prediction.interval.high,
    }


def _prediction(prediction: Prediction | None) -> dict[str, Any] | None:
    if prediction is None:
        return None
    return {
        "samples_per_s": prediction.samples_per_s,
        "interval": [prediction.interval.low, prediction.interval.high],
        "interval_level": prediction.interval.level,
        "bottleneck": prediction.bottleneck,
    }
