"""Jobs of the cluster as candidates of co-scheduling, and jobs left alone. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from slurm_ext.core.gpu_sharing import SoloProfile
from slurm_ext.core.job_keys import job_signature, keys_of
from slurm_ext.core.records import Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.units import MIB
from slurm_ext.policy.colocation.choose_pairs import Candidate
from slurm_ext.slurm.records import JobInfo, NodeInfo

SHARE, ALONE, OFF, REQUEUE = "dlqueue=share", "dlqueue=alone", "dlqueue=off", "dlqueue=requeue"
UNLIMITED_MINUTES = 60 * 24 * 300  # a partition without a limit gives a year
ROUNDS_S = 60.0  # Slurm's clock may be ahead, its answer late
_READY = frozenset({"", "None", "Priority", "Resources", "BeginTime"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTimeHold:
    """Hold of a waiting job as Slurm has it."""

    until_s: float  # Unix; Slurm starts it by itself from then on
    put_off_s: float = 0.0  # while a node had room for it, or others passed it
    node: str | None = None  # bound to


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingJobs:
    """The jobs of one look, as the policy wants them."""

    waiting: tuple[Candidate, ...] = ()
    running: tuple[Candidate, ...] = ()
    left_alone: Mapping[str, str] = field(default_factory=dict)  # by job: why
    infos: Mapping[str, JobInfo] = field(default_factory=dict)  # those that wait or run


def name_of(job: JobInfo) -> str:
    """`<job id>.<restart>`, as everywhere."""
    return f"{job.job_id}.{job.restarts}"


def id_of(name: str) -> int:
    """The job id in such a name."""
    return int(name.partition(".")[0])


def words(job: JobInfo) -> list[str]:
    """Words of the user's comment."""
    return job.comment.replace(",", " ").replace(";", " ").split()


def opted_in(job: JobInfo, settings: Settings) -> bool:
    """True if the job, else its account or every partition of it, has agreed to share."""
    comment = words(job)
    if ALONE in comment or OFF in comment:
        return False
    if SHARE in comment:
        return True
    accounts, partitions = settings["sharing.accounts"], settings["sharing.partitions"]
    everywhere = "*" in partitions or all(p in partitions for p in job.partition.split(","))
    return "*" in accounts or job.account in accounts or everywhere


def key_of(job: JobInfo, script: str | None) -> str:
    """The job's solo key; empty where nothing names it."""
    submission = Submission(
        name=job.name,
        user_name=job.user_name,
        work_dir=job.work_dir,
        script=script,
        argv=tuple(job.command.split()),
    )
    return job_signature(keys_of(submission)) or ""


def why_left_alone(job: JobInfo, hold: BeginTimeHold | None, now_s: float) -> str | None:
    """Reason why a waiting job that agreed is left to Slurm; None if it is not."""
    if job.array_job_id is not None:
        return "is an array"
    if job.het_job_id is not None:
        return "is a heterogeneous job"
    if job.gres:
        return "asks for more than CPUs"
    if job.reservation:
        return "has a place in a reservation"
    if job.node_count not in (None, 1) or not job.cpus:
        return "may take several nodes"
    if job.reason not in _READY:
        return f"waits for something else: {job.reason}"
    if (job.required_nodes and (hold is None or hold.node is None)) or job.excluded_nodes:
        return "its user chose nodes"
    ours_s = now_s + 1 if hold is None else hold.until_s + ROUNDS_S
    if (job.eligible_time_s or 0) > ours_s:
        return "its user chose when to begin"
    return None


def look(
    jobs: Iterable[JobInfo],
    keys: Mapping[str, str],
    holds: Mapping[str, BeginTimeHold],
    settings: Settings,
    now_s: float,
) -> SharingJobs:
    """Sort out jobs that may be held back, and running jobs that others could join."""
    waiting: list[Candidate] = []
    running: list[Candidate] = []
    left_alone: dict[str, str] = {}
    infos: dict[str, JobInfo] = {}
    for job in jobs:
        name = name_of(job)
        if job.state == "PENDING" and opted_in(job, settings):
            why = why_left_alone(job, holds.get(name), now_s)
            if why is not None:
                left_alone[name] = why
                continue
            waiting.append(candidate(job, keys.get(name, ""), settings, now_s))
            infos[name] = job
        elif job.state == "RUNNING" and job.nodes and "[" not in job.nodes and "," not in job.nodes:
            running.append(candidate(job, keys.get(name, ""), settings, now_s))
            infos[name] = job
    return SharingJobs(
        waiting=tuple(waiting), running=tuple(running), left_alone=left_alone, infos=infos
    )


def candidate(job: JobInfo, key: str, settings: Settings, now_s: float) -> Candidate:
    """The job in the policy's words; the time left is what its limit leaves."""
    return Candidate(
        job=name_of(job),
        solo=SoloProfile(key=key),
        user=job.user_name,
        account=job.account or None,
        remaining_s=_left_s(job, now_s),
        opted_in=opted_in(job, settings),
        place=job.nodes if job.state == "RUNNING" else None,
        rank=-float(job.priority or 0),
        cpus=job.cpus or 1,
    )


def _left_s(job: JobInfo, now_s: float) -> float | None:
    limit = job.time_limit_minutes
    if limit is None or limit >= UNLIMITED_MINUTES:
        return None
    if job.state == "RUNNING" and job.end_time_s:
        return max(0.0, job.end_time_s - now_s)
    return 60.0 * limit


NOT_TOLD_MIB = 1  # Slurm's RealMemory where slurm.conf has none


HeldMemory = Callable[
    [str], float
]  # bytes that the job of a solo key held at most; 0: not measured


def with_needs(jobs: SharingJobs, used: HeldMemory) -> SharingJobs:
    """Return the jobs with the memory that each needs, also where it requested less."""
    return replace(
        jobs,
        waiting=tuple(_needing(candidate, jobs.infos, used) for candidate in jobs.waiting),
        running=tuple(_needing(candidate, jobs.infos, used) for candidate in jobs.running),
    )


def room(nodes: Iterable[NodeInfo]) -> float | None:
    """Bytes of the smallest of the nodes; None where one has not said how much it has."""
    sizes = [node.mem_mib for node in nodes]
    return min(sizes) * MIB if sizes and min(sizes) > NOT_TOLD_MIB else None


def _needing(candidate: Candidate, infos: Mapping[str, JobInfo], used: HeldMemory) -> Candidate:
    requested = (infos[candidate.job].mem_mib or 0) * MIB
    need = max(requested, used(candidate.solo.key) if candidate.solo.key else 0.0)
    return replace(candidate, solo=replace(candidate.solo, mem_bytes=need))
