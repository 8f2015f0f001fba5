"""State of the cluster around a submission that may share a GPU."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from slurm_ext.advisor.limits.gpu_pools import GpuPool
from slurm_ext.advisor.sharing.gpu_sharers import SharedGpuJob, SharedGpuQueue
from slurm_ext.advisor.sharing.serving_slowdown import SlowdownSnapshot
from slurm_ext.core.records import Edits, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.units import MIB
from slurm_ext.policy.colocation.choose_pairs import SharingRules
from slurm_ext.slurm import JobAllowance


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingContext:
    """The cluster's GPUs, the jobs that share them, and the effects of sharing."""

    settings: Settings
    now_s: float
    pool: GpuPool | None = None  # None: not known
    allowance: JobAllowance | None = None  # None: not known
    pools: Mapping[str, GpuPool] = field(default_factory=dict)  # by partition, for the others' sake
    task_prolog: bool = False
    queue: SharedGpuQueue = field(default_factory=SharedGpuQueue)
    recent: Sequence[SharedGpuJob] = ()  # had their answer after the queue was looked at
    snapshot: SlowdownSnapshot | None = None
    blocked: AbstractSet[frozenset[str]] = frozenset()  # job signatures of pairs that went badly
    in_time: Callable[[], bool] = lambda: True  # slurmctld waits for the answer


def as_shared_gpu_job(
    job: Submission, key: str | None, name: str, edits: Edits
) -> SharedGpuJob | None:
    """The submission as later ones see it; None: it has no part of a GPU."""
    if edits.gres is None:
        return None
    kind, _, count = edits.gres.partition(":")
    return SharedGpuJob(
        job=name,
        user=job.user_name,
        account=job.account or "",
        partition=job.partition or "",
        kind=kind,
        count=int(count),
        key=key,
    )


def rules_of(
    settings: Settings, blocked: AbstractSet[frozenset[str]] = frozenset()
) -> SharingRules:
    """The site's rules in the policy's words, and which pairs are kept apart."""
    return SharingRules(
        floor=settings["sharing.floor"],
        same_user=not settings["sharing.across_users"],
        gpu_mem_bytes=settings["sharing.gpu_mem_mib"] * MIB,
        most_together=settings["sharing.most_together"],
        bad_pairs=blocked,
    )


def stale_after_s(settings: Settings) -> float:
    """Age from which nobody knows any more who shares."""
    return float(max(60.0, 3 * settings["advisor.reconcile_s"]))
