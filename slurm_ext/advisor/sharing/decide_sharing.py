"""Decide if one submission asks for a part of a GPU instead of a whole one. Pure.

Consent first, then whatever could have the job rejected or wait for ever, then who it may meet, and
last the policy's verdict on the worst of them (policy/colocation/choose_pairs.py). Slurm puts any
two jobs with
parts on one GPU: while another user's jobs have some where this one could go, it stays whole.
"""

from slurm_ext.advisor.limits.eligible import MARK, wants_to_share, why_not_edited
from slurm_ext.advisor.limits.gpu_pools import GpuPool
from slurm_ext.advisor.sharing.context import SharingContext, mode_of, rules_of, stale_after_s
from slurm_ext.advisor.sharing.gpu_request import WholeGpuRequest
from slurm_ext.advisor.sharing.gpu_sharers import SharedGpuJob
from slurm_ext.advisor.sharing.serving_slowdown import SlowdownSnapshot
from slurm_ext.advisor.sharing.terms import SharingDecision
from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile
from slurm_ext.core.records import Edits, Mode, Submission
from slurm_ext.policy.colocation.choose_pairs import Candidate, SharingVerdict, fit_to_share

MOST_PARTNERS = 16  # different jobs that are foretold at one submission, cold in 10 to 32 ms
_SELF = "this job"


def decide_sharing(
    job: Submission, whole: WholeGpuRequest | str | None, key: str | None, around: SharingContext
) -> SharingDecision | None:
    """The decision; None where there is no GPU, no consent, or the mode is off."""
    settings = around.settings
    mode = mode_of(job, settings)
    if whole is None or mode is Mode.OFF or not wants_to_share(job, settings):
        return None
    floor = settings["sharing.floor"]
    why = whole if isinstance(whole, str) else _forbidden(job, whole, around)
    if why is not None or isinstance(whole, str):
        return SharingDecision(mode=mode, share=False, why=str(why), floor=floor)
    found = _judged(job, whole, key, around)
    if isinstance(found, str):
        return SharingDecision(mode=mode, share=False, why=found, floor=floor)
    verdict, speed, partners = found
    return SharingDecision(
        mode=mode,
        share=verdict.share,
        why=verdict.reason,
        floor=floor,
        gres=_gres(around) if verdict.share else None,
        worst=verdict.worst,
        usual=speed.mean if speed else None,
        evidence=speed.evidence.value if speed else None,
        beside=verdict.beside,
        partners=partners,
        across=settings["sharing.across_users"],
        edits=_edits(job, whole, around) if verdict.share else Edits(),
    )


def _forbidden(job: Submission, whole: WholeGpuRequest, around: SharingContext) -> str | None:
    """Return the reason to expect a rejected or endlessly waiting job, or an evaded limit."""
    settings, pool = around.settings, around.pool
    kind = settings["sharing.gres"]
    left_alone = why_not_edited(job)
    if left_alone is not None:
        return left_alone
    if pool is None or around.allowance is None:
        return "the limits of its partition or account are not known"
    if kind in pool.refused or not _count(around):
        return pool.refused.get(kind) or f"one GPU is fewer {kind} than jobs may be on it"
    if len(pool.gpu_types) > 1 or (whole.gpu_type and pool.gpu_types != {whole.gpu_type}):
        return "its partition has several kinds of GPU"
    most = around.allowance.max_mps if kind == "mps" else around.allowance.max_shard
    if most is not None and most < _count(around):
        return f"a limit of its account or QOS on GPUs allows {most or 'no'} {kind}"
    if whole.bound and not around.task_prolog:
        return "without a task prolog its steps would ask for the GPU again"
    return None


def _count(around: SharingContext) -> int:
    """Shares that one job gets, so that as many as the site wants fit on a GPU."""
    shares = around.pool.shares.get(around.settings["sharing.gres"], 0) if around.pool else 0
    return int(shares // around.settings["sharing.most_together"])


def _gres(around: SharingContext) -> str:
    return f"{around.settings['sharing.gres']}:{_count(around)}"


def _edits(job: Submission, whole: WholeGpuRequest, around: SharingContext) -> Edits:
    feature = around.settings["sharing.prefer"]
    known = around.pool is not None and feature in around.pool.features
    free = job.features is None and job.prefer is None
    empty = dict.fromkeys(whole.emptied, "")
    return Edits(
        gres=_gres(around),
        prefer=feature if feature and known and free else None,
        env={MARK: _gres(around), **dict.fromkeys(whole.stale, "")},
        tres_per_job=empty.get("tres_per_job"),
        tres_per_task=empty.get("tres_per_task"),
        tres_bind=empty.get("tres_bind"),
    )


def _judged(
    job: Submission, whole: WholeGpuRequest, key: str | None, around: SharingContext
) -> tuple[SharingVerdict, RelativeSpeed | None, tuple[str, ...]] | str:
    """The policy's verdict with the speed beside the worst, or why it was not asked."""
    settings, taught = around.settings, around.taught
    if key is None or taught is None or key not in taught.solos:
        return "how it does beside others is not known yet"
    if not settings["sharing.gpu_mem_mib"]:
        return "how much memory its GPU has is not told (sharing.gpu_mem_mib)"
    if around.now_s - around.queue.at_s > stale_after_s(settings):
        return "who shares at the moment is not known"
    near = [one for one in (*around.queue.jobs, *around.recent) if _meets(one, around)]
    if not settings["sharing.across_users"] and any(one.user != job.user_name for one in near):
        return "another user's jobs share GPUs here at the moment"
    different = {one.key or one.job: one for one in near}
    if len(different) > MOST_PARTNERS:
        return "too many different jobs share GPUs here at the moment"
    device = taught.device(whole.gpu_type or _only(around.pool))
    me = Candidate(
        job=_SELF, solo=taught.solos[key], user=job.user_name, opted_in=True, device=device
    )
    others = [_candidate(one, taught, device) for one in different.values()]
    return _verdict(me, others, around, taught)


def _verdict(
    me: Candidate, others: list[Candidate], around: SharingContext, taught: SlowdownSnapshot
) -> tuple[SharingVerdict, RelativeSpeed | None, tuple[str, ...]] | str:
    rules = rules_of(around.settings, around.apart)
    try:
        verdict = fit_to_share(me, others, taught.slowdowns, rules, in_time=around.in_time)
    except InputError as error:
        return str(error)
    beside = next((one.solo for one in others if one.solo.key == verdict.beside), me.solo)
    crowd = [beside] * (rules.most_together - 1)
    speed = taught.slowdowns.speed(me.solo, crowd, me.device) if verdict.beside else None
    if verdict.share and speed is not None and not speed.low >= rules.floor:
        why = f"beside {len(crowd)} others it may run at {speed.low:.0%} of its speed alone"
        verdict = SharingVerdict(share=False, worst=speed.low, beside=verdict.beside, reason=why)
    return verdict, speed, tuple(one.job for one in others)


def _meets(one: SharedGpuJob, around: SharingContext) -> bool:
    """True if a job may have its part of a GPU on a node that this submission can go to."""
    if one.kind != around.settings["sharing.gres"] or around.pool is None:
        return False
    pools = [around.pools.get(name) for name in one.partition.split(",")]
    return any(pool is None or pool.nodes & around.pool.nodes for pool in pools)


def _candidate(one: SharedGpuJob, taught: SlowdownSnapshot, device: str) -> Candidate:
    """A job that has a part has agreed to share: by itself, or when it was given one."""
    solo = taught.solos.get(one.key or "", SoloProfile(key=one.key or ""))
    return Candidate(job=one.job, solo=solo, user=one.user, opted_in=True, device=device)


def _only(pool: GpuPool | None) -> str:
    return next(iter(pool.gpu_types), "") if pool else ""
