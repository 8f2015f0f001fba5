"""Decide if one submission asks for a part of a GPU instead of a whole one. Pure.

Consent first, then whatever could have the job rejected or wait for ever, then who it may meet, and
last the policy's verdict on the worst of them (policy/colocation/choose_pairs.py). Slurm puts any
two jobs with
parts on one GPU: while another user's jobs have some where this one could go, it stays whole.
"""

from dataclasses import replace

from slurm_ext.advisor.limits.eligible import MARK, mode_of, wants_to_share, why_not_edited
from slurm_ext.advisor.limits.gpu_pools import GpuPool
from slurm_ext.advisor.sharing.context import SharingContext, rules_of, stale_after_s
from slurm_ext.advisor.sharing.gpu_memory import lacking_memory
from slurm_ext.advisor.sharing.gpu_request import WholeGpuRequest
from slurm_ext.advisor.sharing.gpu_sharers import SharedGpuJob
from slurm_ext.advisor.sharing.serving_slowdown import SlowdownSnapshot
from slurm_ext.advisor.sharing.terms import SharingDecision
from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile
from slurm_ext.core.records import Edits, Mode, Submission
from slurm_ext.policy.colocation.choose_pairs import (
    Candidate,
    SharingRules,
    SharingVerdict,
    fit_to_share,
)

MOST_PARTNERS = 16  # different jobs that are predicted at one submission, cold in 10 to 32 ms
_SELF = "this job"


def decide_sharing(
    job: Submission, whole: WholeGpuRequest | str | None, key: str | None, context: SharingContext
) -> SharingDecision | None:
    """The decision; None where there is no GPU, no consent, or the mode is off."""
    settings = context.settings
    mode = mode_of(job, settings, "sharing.mode")
    if whole is None or mode is Mode.OFF or not wants_to_share(job, settings):
        return None
    floor = settings["sharing.floor"]
    why = whole if isinstance(whole, str) else _forbidden(job, whole, context)
    if why is not None or isinstance(whole, str):
        return SharingDecision(mode=mode, share=False, why=str(why), floor=floor)
    judgement = _judged(job, whole, key, context)
    if isinstance(judgement, str):
        return SharingDecision(mode=mode, share=False, why=judgement, floor=floor)
    verdict, speed, partners = judgement
    return SharingDecision(
        mode=mode,
        share=verdict.share,
        why=verdict.reason,
        floor=floor,
        gres=_gres(context) if verdict.share else None,
        worst=verdict.worst,
        usual=speed.mean if speed else None,
        evidence=speed.evidence.value if speed else None,
        beside=verdict.beside,
        partners=partners,
        across=settings["sharing.across_users"],
        edits=_edits(job, whole, context) if verdict.share else Edits(),
    )


def _forbidden(job: Submission, whole: WholeGpuRequest, context: SharingContext) -> str | None:
    """Return the reason to expect a rejected or endlessly waiting job, or an evaded limit."""
    settings, pool = context.settings, context.pool
    kind = settings["sharing.gres"]
    left_alone = why_not_edited(job)
    if left_alone is not None:
        return left_alone
    if pool is None or context.allowance is None:
        return "the limits of its partition or account are not known"
    if kind in pool.refused or not _count(context):
        return pool.refused.get(kind) or f"one GPU is fewer {kind} than jobs may be on it"
    if len(pool.gpu_types) > 1 or (whole.gpu_type and pool.gpu_types != {whole.gpu_type}):
        return "its partition has several kinds of GPU"
    most = context.allowance.max_mps if kind == "mps" else context.allowance.max_shard
    if most is not None and most < _count(context):
        return f"a limit of its account or QOS on GPUs allows {most or 'no'} {kind}"
    if whole.bound and not context.task_prolog:
        return "without a task prolog its steps would ask for the GPU again"
    return None


def _count(context: SharingContext) -> int:
    """Shares that one job gets, so that as many as the site wants fit on a GPU."""
    shares = context.pool.shares.get(context.settings["sharing.gres"], 0) if context.pool else 0
    return int(shares // context.settings["sharing.most_together"])


def _gres(context: SharingContext) -> str:
    return f"{context.settings['sharing.gres']}:{_count(context)}"


def _edits(job: Submission, whole: WholeGpuRequest, context: SharingContext) -> Edits:
    feature = context.settings["sharing.prefer"]
    supported = context.pool is not None and feature in context.pool.features
    free = job.features is None and job.prefer is None
    empty = dict.fromkeys(whole.emptied, "")
    return Edits(
        gres=_gres(context),
        prefer=feature if feature and supported and free else None,
        env={MARK: _gres(context), **dict.fromkeys(whole.stale, "")},
        tres_per_job=empty.get("tres_per_job"),
        tres_per_task=empty.get("tres_per_task"),
        tres_bind=empty.get("tres_bind"),
    )


def _judged(
    job: Submission, whole: WholeGpuRequest, key: str | None, context: SharingContext
) -> tuple[SharingVerdict, RelativeSpeed | None, tuple[str, ...]] | str:
    """The policy's verdict with the speed beside the worst, or why it was not asked."""
    settings, snapshot = context.settings, context.snapshot
    if key is None or snapshot is None or key not in snapshot.solos:
        return "how it does beside others is not known yet"
    if not settings["sharing.gpu_mem_mib"]:
        return "how much memory its GPU has is not told (sharing.gpu_mem_mib)"
    if context.now_s - context.queue.at_s > stale_after_s(settings):
        return "who shares at the moment is not known"
    near = [sharer for sharer in (*context.queue.jobs, *context.recent) if _meets(sharer, context)]
    if not settings["sharing.across_users"] and any(
        sharer.user != job.user_name for sharer in near
    ):
        return "another user's jobs share GPUs here at the moment"
    different = {sharer.key or sharer.job: sharer for sharer in near}
    if len(different) > MOST_PARTNERS:
        return "too many different jobs share GPUs here at the moment"
    device = snapshot.device(whole.gpu_type or _only(context.pool))
    me = Candidate(
        job=_SELF, solo=snapshot.solos[key], user=job.user_name, opted_in=True, device=device
    )
    others = [_candidate(sharer, snapshot, device) for sharer in different.values()]
    return _verdict(me, others, context, snapshot)


def _verdict(
    me: Candidate, others: list[Candidate], context: SharingContext, snapshot: SlowdownSnapshot
) -> tuple[SharingVerdict, RelativeSpeed | None, tuple[str, ...]] | str:
    rules = rules_of(context.settings, context.blocked)
    try:
        verdict = fit_to_share(me, others, snapshot.slowdowns, rules, in_time=context.in_time)
    except InputError as error:
        return str(error)
    beside = next(
        (candidate.solo for candidate in others if candidate.solo.key == verdict.beside), me.solo
    )
    crowd = [beside] * (rules.most_together - 1)
    speed = snapshot.slowdowns.speed(me.solo, crowd, me.device) if verdict.beside else None
    if verdict.share:
        memory = lacking_memory(me, others, context, _count(context))
        verdict = _in_a_crowd(verdict, speed, memory, rules)
    return verdict, speed, tuple(dict.fromkeys(candidate.job for candidate in others))


def _in_a_crowd(
    verdict: SharingVerdict, speed: RelativeSpeed | None, memory: str | None, rules: SharingRules
) -> SharingVerdict:
    """The verdict where as many share the GPU as may: `memory` lacks, or the speed is too low."""
    if memory is not None:
        return replace(verdict, share=False, reason=memory)
    if speed is None or speed.low >= rules.floor:
        return verdict
    many = rules.most_together - 1
    why = f"beside {many} others it may run at {speed.low:.0%} of its speed alone"
    return replace(verdict, share=False, worst=speed.low, reason=why)


def _meets(sharer: SharedGpuJob, context: SharingContext) -> bool:
    """True if a job may have its part of a GPU on a node that this submission can go to."""
    if sharer.kind != context.settings["sharing.gres"] or context.pool is None:
        return False
    pools = [context.pools.get(name) for name in sharer.partition.split(",")]
    return any(pool is None or pool.nodes & context.pool.nodes for pool in pools)


def _candidate(sharer: SharedGpuJob, snapshot: SlowdownSnapshot, device: str) -> Candidate:
    """A job that has a part has agreed to share: by itself, or when it was given one."""
    solo = snapshot.solos.get(sharer.key or "", SoloProfile(key=sharer.key or ""))
    return Candidate(job=sharer.job, solo=solo, user=sharer.user, opted_in=True, device=device)


def _only(pool: GpuPool | None) -> str:
    return next(iter(pool.gpu_types), "") if pool else ""
