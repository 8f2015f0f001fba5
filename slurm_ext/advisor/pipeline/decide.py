"""One submission's journey: Submission in, Answer out. Pure, so that live, shadow and replay agree.

Mode, opt-out and what must be left alone come first; then what like runs say, the policy's choice,
the floors below which a job is hurt, and last what the mode lets through.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from slurm_ext.advisor.limits.bounds import PartitionRules, cpus_of, floor_for, limits_for
from slurm_ext.advisor.limits.eligible import why_not_edited, why_skipped
from slurm_ext.advisor.pipeline.edits import edits_for
from slurm_ext.advisor.pipeline.message import message, with_sharing
from slurm_ext.advisor.sharing.terms import MARK, SharingDecision
from slurm_ext.core.records import (
    Decision,
    Edits,
    Level,
    LoaderRun,
    Mode,
    Prediction,
    Shape,
    ShapeLimits,
    Submission,
)
from slurm_ext.core.settings.document import Settings
from slurm_ext.model.throughput import estimate_codec
from slurm_ext.model.throughput.estimate import Estimate, Prior, estimate, shape_predictor
from slurm_ext.model.throughput.evidence_checks import why_no_estimate
from slurm_ext.policy import loader

if TYPE_CHECKING:
    from slurm_ext.model.scaling.family import Family

Evidence = Mapping[Level, Sequence[LoaderRun]]
_OF_ITS_KIND = tuple(level for level in Level if level is not Level.CLUSTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """What the journey is told besides the submission."""

    settings: Settings
    evidence: Evidence = field(default_factory=dict)
    prior: Prior | None = None
    rules: PartitionRules | None = None  # None: the partition's are unknown
    factor: float = 1.0  # widens every interval (model/throughput/calibration.py)
    family: "Family | None" = None  # what other trainings taught about growing with GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Decision on a submission before it has a token; valid as long as its context is."""

    mode: Mode
    why: str
    decision: Decision | None = None  # None: nothing at all, and nothing is recorded
    proposed: Edits = field(default_factory=Edits)  # what `act` would do
    message: str | None = None
    estimate: Estimate | None = None
    limits: ShapeLimits | None = None
    unmarked: Mapping[str, str] = field(default_factory=dict)  # what another job handed down


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What to do with one submission."""

    thought: Recommendation
    shared: SharingDecision | None = None
    edits: Edits = field(default_factory=Edits)  # what the mode and the control group let through
    message: str | None = None
    holdout: bool = False

    @property
    def decision(self) -> Decision | None:
        """The policy's choice; None: nothing at all, and nothing is recorded."""
        return self.thought.decision


def respond(
    job: Submission, known: DecisionContext, token: str, shared: SharingDecision | None = None
) -> Response:
    """The answer to one submission, which `token` will name from now on."""
    return apply_mode(decide(job, known), known.settings, token, shared)


def decide(job: Submission, known: DecisionContext) -> Recommendation:
    """What is believed, chosen and would be said; nothing in it is of this one submission only."""
    mode = known.settings.mode_for(job.partition, job.account)
    why = "the mode here is off" if mode is Mode.OFF else why_skipped(job)
    if why is not None:
        return Recommendation(mode=mode, why=why)
    believed = estimate(known.evidence, known.prior)
    decision = _loader_decision(job, known, believed)
    changes = decision.action == "change"
    return Recommendation(
        mode=mode,
        why=decision.reason,
        decision=decision,
        proposed=edits_for(job, decision, known.rules) if changes else Edits(),
        message=_message(decision, mode, believed),
        estimate=believed,
        limits=limits_for(job, known.rules, known.settings["policy.max_workers"]),
        unmarked={MARK: ""} if job.env.get(MARK) else {},
    )


def apply_mode(
    thought: Recommendation, settings: Settings, token: str, shared: SharingDecision | None = None
) -> Response:
    """What of a thought reaches the job: the token always, the edits in `act` mode.

    The control group is left as written and told nothing.
    """
    if thought.decision is None:
        return Response(thought=thought)
    tie = {"DLQUEUE_DECISION": token, **_curve(thought, settings)}
    chosen = thought.estimate is not None or (shared is not None and shared.share)
    holdout = chosen and held_out(token, settings["policy.holdout_share"])
    edits = Edits() if holdout else _acting(thought, shared)
    return Response(
        thought=thought,
        shared=shared,
        edits=replace(edits, env={**thought.unmarked, **edits.env, **tie}),
        message=None if holdout else with_sharing(thought.message, shared),
        holdout=holdout,
    )


def _acting(thought: Recommendation, shared: SharingDecision | None) -> Edits:
    """The edits of both decisions, each where its own mode acts."""
    edits = thought.proposed if thought.mode is Mode.ACT else Edits()
    if shared is None or shared.mode is not Mode.ACT:
        return edits
    part = shared.edits
    return replace(
        edits,
        gres=part.gres,
        tres_per_job=part.tres_per_job,
        tres_per_task=part.tres_per_task,
        tres_bind=part.tres_bind,
        prefer=part.prefer,
        env={**edits.env, **part.env},
    )


def _curve(thought: Recommendation, settings: Settings) -> dict[str, str]:
    """What is believed travels with the job to the node's controller; it changes nothing of it."""
    if settings["control.mode"] == "off" or thought.estimate is None:
        return {}
    return {"DLQUEUE_CURVE": estimate_codec.write(thought.estimate)}


def held_out(token: str, share: float) -> bool:
    """Whether the token's hash falls into the control group; the same for every asking."""
    point = int.from_bytes(blake2b(token.encode(), digest_size=8).digest(), "big")
    return point < share * 2**64


def predictor(believed: Estimate, known: DecisionContext) -> Callable[[Shape], Prediction]:
    """Shape to Prediction, on machines such as like runs saw."""
    cores = node_cores_of(known.evidence)
    return shape_predictor(believed, node_cores=cores, factor=known.factor)


def _loader_decision(
    job: Submission, known: DecisionContext, believed: Estimate | None
) -> Decision:
    """The policy's choice, or the reason why it was not asked."""
    before = Shape(cpus_per_task=cpus_of(job), num_workers=usual_workers(known.evidence))
    why_not = why_not_edited(job)
    if why_not is None and believed is None:
        why_not = why_no_estimate(known.evidence)
    least = known.settings["policy.min_runs"]
    if why_not is None and believed is not None and believed.runs < least:
        why_not = f"I do not know yet: {believed.runs} runs like this one, {least} are wanted"
    if why_not is not None or believed is None:
        reason = why_not or why_no_estimate(known.evidence)
        return Decision(action="leave", reason=reason, before=before, after=before)
    at = predictor(believed, known)
    settings = known.settings
    chosen = loader.decide(
        before,
        at,
        limits_for(job, known.rules, settings["policy.max_workers"]),
        target=settings["policy.target"],
        min_gain=settings["policy.min_gain"],
        may_change_cpus=_may_change_cpus(job, known),
        worker_rss_bytes=believed.worker_rss_bytes,
    )
    return _above_floor(chosen, floor_for(job, known.rules), at)


def _may_change_cpus(job: Submission, known: DecisionContext) -> str:
    """One of never, grow, any: what was not asked for may change wherever the rules are known."""
    if known.rules is None:
        return "never"  # the default memory per CPU and its maximum are unknown too
    explicit = job.cpus_per_task is not None
    return str(known.settings["policy.change_explicit"]) if explicit else "any"


def _above_floor(decision: Decision, floor: int, at: Callable[[Shape], Prediction]) -> Decision:
    """The decision with no fewer CPUs than the job's GPUs and memory need."""
    least = min(floor, decision.before.cpus_per_task)
    if decision.action != "change" or decision.after.cpus_per_task >= least:
        return decision
    after = replace(decision.after, cpus_per_task=least)
    if after == decision.before:
        reason = "its GPUs or its memory need every CPU it asks for"
        return replace(decision, action="leave", reason=reason, after=after)
    return replace(decision, after=after, predicted_after=at(after))


def usual_workers(evidence: Evidence) -> int:
    """Workers that the script itself asks for, as its nearest and newest run saw them."""
    for level in _OF_ITS_KIND:
        for run in evidence.get(level, ()):
            return run.workers if run.user_workers is None else run.user_workers
    return 0


def node_cores_of(evidence: Evidence) -> int | None:
    """Cores that the machine of the nearest run really has, whatever Slurm was told of them."""
    runs = (run for level in Level for run in evidence.get(level, ()))
    return next((run.node_cores for run in runs if run.node_cores), None)


def _message(decision: Decision, mode: Mode, believed: Estimate | None) -> str | None:
    return message(decision, mode, emulated=believed is not None and believed.emulated)
