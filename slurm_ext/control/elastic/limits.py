"""Most GPUs that partition, account and QOS allow an elastic job.

What is known of limits counts before a job is resized. Slurm's own word counts after it: a job that
waits for a limit at a size of ours has its user's size again, and is not made larger any more.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from slurm_ext.control.elastic.jobs import (
    HELD_STATES,
    ElasticPool,
    RequestedSize,
    Resizable,
    requested_size,
)
from slurm_ext.core.errors import SlurmError
from slurm_ext.slurm.allowances import Allowances
from slurm_ext.slurm.client import SlurmClient
from slurm_ext.slurm.records import JobAllowance, JobInfo

EVERY_S = 60.0  # limits change rarely, and slurmdbd is slow to tell
_LIMITS = ("QOS", "Assoc", "Max", "PartitionNodeLimit", "AccountingPolicy")


class ElasticLimits:
    """Limits of accounts and QOS, read now and then; `limited` are jobs that met one."""

    def __init__(self, client: SlurmClient, limited: set[str]) -> None:
        self._client, self.limited = client, limited
        self._due_s = float("-inf")
        self._allowances: Allowances | None = None
        self._enforced = True
        self._qos: dict[str, str] = {}

    def read(self, now_s: float) -> None:
        """Read them again where they are old; while Slurm does not tell, nothing is allowed."""
        if now_s < self._due_s:
            return
        self._due_s = now_s + EVERY_S
        self._enforced, self._allowances = True, None
        try:
            accounting = self._client.accounting()
            self._enforced = accounting is not None
            self._allowances = None if accounting is None else Allowances(accounting)
            self._qos = {part.name: part.qos for part in self._client.partitions() if part.qos}
        except SlurmError:
            return

    def within(
        self, pool: ElasticPool, requests: Mapping[str, RequestedSize], every: Sequence[JobInfo]
    ) -> ElasticPool:
        """Return the pool with bounds that the limits allow; `every` job counts for its user."""
        jobs = [self._bounded(job, requests.get(job.name)) for job in pool.jobs]
        return replace(pool, jobs=jobs, most=self._most(pool, every))

    def over(self, jobs: Iterable[JobInfo], requests: Mapping[str, RequestedSize]) -> list[JobInfo]:
        """Return resized jobs that wait for a limit, by Slurm's own word, and remember them."""
        over = [job for job in jobs if _waits_for_limit(job) and str(job.job_id) in requests]
        self.limited |= {str(job.job_id) for job in over}
        return [job for job in over if requests[str(job.job_id)]["gpus"] != job.gpus]

    def _most(self, pool: ElasticPool, every: Sequence[JobInfo]) -> dict[str, int]:
        """GPUs that limits on the sum of a user's jobs leave his jobs in this pool."""
        ours, most = {job.info.job_id for job in pool.jobs}, dict[str, int]()
        for job in pool.jobs:
            allowance = self._allowance(job.info)
            if allowance is not None and allowance.max_user_gpus is not None:
                left = allowance.max_user_gpus - _held_by(job.info, every, ours)
                most[job.user] = max(0, min(left, most.get(job.user, left)))
        return most

    def _allowance(self, job: JobInfo) -> JobAllowance | None:
        names = [self._qos[job.partition]] if job.partition in self._qos else []
        return self._allowances.of(job, names) if self._allowances else None

    def _bounded(self, job: Resizable, request: RequestedSize | None) -> Resizable:
        info, size = job.info, (request or requested_size(job.info))["gpus"]
        allowance = self._allowance(info)
        if job.name in self.limited or (self._enforced and allowance is None):
            most = size
        elif allowance is None:
            return job
        else:
            most = most_gpus(info, size, allowance)
        return replace(job, most=max(job.least, min(job.most, most)))


def _held_by(job: JobInfo, every: Iterable[JobInfo], ours: Set[int]) -> int:
    """GPUs that other jobs of its user hold."""
    return sum(
        other.gpus or 0
        for other in every
        if other.user_id == job.user_id and other.state in HELD_STATES and other.job_id not in ours
    )


def most_gpus(job: JobInfo, request: int, allowance: JobAllowance) -> int:
    """Most GPUs within the limits; as many as its user asked for are always allowed.

    CPUs and memory grow with the GPUs. What cannot be computed allows nothing more.
    """
    return max(request, min(_bounds(job, request, allowance), default=1 << 30))


def _bounds(job: JobInfo, request: int, allowance: JobAllowance) -> Iterator[int]:
    minutes, now = job.time_limit_minutes, job.gpus or request
    if allowance.by_other_means:
        yield request
    if allowance.max_gpus is not None:
        yield allowance.max_gpus
    if allowance.max_gpu_minutes is not None:
        yield allowance.max_gpu_minutes // minutes if minutes else request
    if allowance.max_cpus is not None:
        yield allowance.max_cpus * now // max(job.cpus or 1, 1)
    if allowance.max_mem_mib is not None:
        yield allowance.max_mem_mib * now // max(job.mem_mib or 1, 1)
    if allowance.max_cpu_minutes is not None:
        used = (job.cpus or 1) * (minutes or 0)
        yield allowance.max_cpu_minutes * now // used if used else request


def _waits_for_limit(job: JobInfo) -> bool:
    return job.state == "PENDING" and job.reason.startswith(_LIMITS)
