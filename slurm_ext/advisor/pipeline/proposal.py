"""The ledger's line for one response, and the name of what came of it."""

import time
from collections.abc import Mapping

from slurm_ext.advisor.pipeline.respond import Response
from slurm_ext.core.elastic_requests import VARIABLE, requested_bounds
from slurm_ext.core.records import Decision, Level, Mode, Submission
from slurm_ext.history.ingest.proposals import Proposal


def proposal_of(
    job: Submission,
    response: Response,
    decision: Decision,
    *,
    keys: Mapping[Level, int],
    token: str,
    model: str | None,
) -> Proposal:
    """Return the ledger's entry for a response with this decision; `model`: whose prior it used."""
    made, sharing, buckets = response.recommendation, response.sharing, response.buckets
    done = response.edits.gres is not None
    elastic = VARIABLE in job.env
    if buckets is not None:
        decision = buckets.of_its_run(decision, holdout=response.holdout)
    return Proposal(
        token=token,
        decided_s=time.time(),
        mode=made.mode,
        holdout=response.holdout,
        user=job.user_name,
        uid=job.user_id,
        job_name=job.name,
        account=job.account,
        partition=job.partition,
        decision=decision,
        edits=response.edits,
        message=response.message,
        keys=keys,
        factor=made.factor,
        factor_beside=made.factor_beside,
        model=model,
        sharing=None if sharing is None else sharing.as_json(done=done),
        elastic=requested_bounds((), job.env[VARIABLE]) if elastic else None,
        ranks=made.whole.ranks,
        buckets=None
        if buckets is None
        else buckets.as_json(done=buckets.acts and not response.holdout),
    )


def outcome_of(response: Response) -> str:
    """Outcome of a recorded decision, as metrics and log name it.

    held_out, kept (as written), done, told (advise mode) or shadow.
    """
    sharing, recommendation = response.sharing, response.recommendation
    shares = sharing is not None and sharing.share
    if response.holdout:
        return "held_out"
    if not shares and recommendation.decision and recommendation.decision.action == "leave":
        return "kept"
    mode = sharing.mode if sharing is not None and shares else recommendation.mode
    return {Mode.ACT: "done", Mode.ADVISE: "told"}.get(mode, "shadow")
