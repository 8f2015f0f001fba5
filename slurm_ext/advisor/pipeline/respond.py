"""The response to one submission: a recommendation, as the mode and the control group let through.

Pure, so that live, shadow and replay agree.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.decide import Recommendation, decide
from slurm_ext.core.records import Edits, Mode, Submission
from slurm_ext.core.settings.document import Settings

if TYPE_CHECKING:  # imported with the first sharing job, or the first of several ranks
    from slurm_ext.advisor.buckets.decision import BucketDecision
    from slurm_ext.advisor.sharing.terms import SharingDecision

_NO_EDITS = Edits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The response to one submission; journal and reply hold the same."""

    recommendation: Recommendation
    sharing: "SharingDecision | None" = None
    buckets: "BucketDecision | None" = None
    edits: Edits = _NO_EDITS  # what the mode and the control group let through
    message: str | None = None
    holdout: bool = False


def respond(
    job: Submission, context: DecisionContext, token: str, sharing: "SharingDecision | None" = None
) -> Response:
    """The response to one submission, which `token` names from now on."""
    return apply_mode(decide(job, context), context.settings, token, sharing)


def apply_mode(
    recommendation: Recommendation,
    settings: Settings,
    token: str,
    sharing: "SharingDecision | None" = None,
    elastic_fault: str | None = None,
    buckets: "BucketDecision | None" = None,
) -> Response:
    """Apply mode and control group: the token always reaches the job, edits in `act` mode.

    The control group is left as written, and its users read nothing of it.
    """
    if recommendation.decision is None:
        return Response(recommendation=recommendation)
    shares = sharing is not None and sharing.share
    trusted = not (recommendation.of_others or recommendation.why_advice or recommendation.stopped)
    knows = recommendation.estimate is not None and trusted
    sets_buckets = buckets is not None and buckets.acts
    may_act = knows or shares or recommendation.tunes or sets_buckets
    holdout = may_act and held_out(token, settings["policy.holdout_share"])
    acts = recommendation.mode is Mode.ACT and not holdout
    edits = recommendation.proposed if acts else _NO_EDITS
    text = None if holdout else recommendation.message
    tunes = recommendation.tunes and not holdout
    if tunes:
        from slurm_ext.advisor.pipeline.message import with_tuning

        text = with_tuning(text)
    if sharing is not None and not holdout:
        from slurm_ext.advisor.pipeline.message import with_sharing

        edits, text = _with_part(edits, sharing), with_sharing(text, sharing)
    if buckets is not None and not holdout:
        from slurm_ext.advisor.pipeline.message import with_buckets

        text = with_buckets(text, buckets)
    if elastic_fault is not None:
        from slurm_ext.advisor.pipeline.message import with_elastic_fault

        text = with_elastic_fault(text, elastic_fault)
    env = {**recommendation.unmarked, **edits.env, "DLQUEUE_DECISION": token}
    env |= {"DLQUEUE_AUTOTUNE": "1"} if tunes else {}
    env |= {"DLQUEUE_IMAGE": token} if recommendation.runs_an_image else {}
    env |= {} if buckets is None else buckets.variable(holdout=holdout)
    if settings["control.mode"] != "off" and knows and recommendation.estimate is not None:
        from slurm_ext.model.throughput import estimate_codec

        env["DLQUEUE_CURVE"] = estimate_codec.write(recommendation.estimate)
    return Response(
        recommendation=recommendation,
        sharing=sharing,
        buckets=buckets,
        edits=replace(edits, env=env),
        message=text,
        holdout=holdout,
    )


def _with_part(edits: Edits, sharing: "SharingDecision") -> Edits:
    """The edits with those that ask for a part of a GPU, where sharing's own mode acts."""
    if sharing.mode is not Mode.ACT:
        return edits
    part = sharing.edits
    return replace(
        edits,
        gres=part.gres,
        tres_per_job=part.tres_per_job,
        tres_per_task=part.tres_per_task,
        tres_bind=part.tres_bind,
        prefer=part.prefer,
        env={**edits.env, **part.env},
    )


def held_out(token: str, share: float) -> bool:
    """True if the token's hash falls into the control group; always the same for one token."""
    from hashlib import blake2b

    point = int.from_bytes(blake2b(token.encode(), digest_size=8).digest(), "big")
    return point < share * 2**64
