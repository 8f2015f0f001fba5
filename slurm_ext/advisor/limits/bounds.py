"""Bounds of a submission's shape: partition, node, memory and account rules. Pure."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slurm_ext.core.gpu_request import gpus_of
from slurm_ext.core.records import ShapeLimits, Submission
from slurm_ext.core.units import MIB

if TYPE_CHECKING:
    from slurm_ext.slurm.records import JobAllowance


_JOBS_IN_A_SUM = 8  # that a limit on the sum of jobs leaves room for, each as large as one raised


def _no_limits() -> "JobAllowance":
    from slurm_ext.slurm.records import JobAllowance  # and with it Slurm's clients: `predict` waits

    return JobAllowance()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRules:
    """Limits of a partition and its nodes; None is no limit, or none configured."""

    cpus_per_node: int  # of the partition's smallest node
    mem_per_node_mib: int | None = None
    def_mem_per_cpu_mib: int | None = None
    max_mem_per_cpu_mib: int | None = None
    keeps_cores: bool = True  # jobs on cores of their own; False: they compute on each other's
    whole_nodes: bool = False  # a job has every CPU of its nodes, whatever it asks for
    cpus_by_gpu: bool = False  # a job that names no CPUs has some for each GPU
    mem_by_gpu: bool = False  # a job that names no memory has some for each GPU
    allowance: "JobAllowance" = field(
        default_factory=_no_limits
    )  # of the job's association and QOS


def limits_for(job: Submission, rules: PartitionRules | None, max_workers: int) -> ShapeLimits:
    """Limits of one task. With no rules known, nothing above what the user asked for."""
    roof = cpus_of(job) if rules is None else _roof(job, rules)
    mem_mib = task_mem_mib(job, rules)
    return ShapeLimits(
        max_cpus_per_task=roof,
        node_cores=roof if rules is None else rules.cpus_per_node,
        mem_bytes=None if mem_mib is None else mem_mib * MIB,
        max_workers=max_workers,
    )


def _roof(job: Submission, rules: PartitionRules) -> int:
    """CPUs that a node has for each task, and memory for where the default brings it along."""
    roof = rules.cpus_per_node // tasks_of(job)
    if rules.mem_per_node_mib and rules.def_mem_per_cpu_mib and names_no_memory(job):
        roof = min(roof, rules.mem_per_node_mib // (rules.def_mem_per_cpu_mib * tasks_of(job)))
    allowed = _allowed_cpus(job, rules)
    if allowed is not None:
        roof = min(roof, allowed // tasks_of(job))
    return max(cpus_of(job), roof)


def _allowed_cpus(job: Submission, rules: PartitionRules) -> int | None:
    """CPUs that account and QOS allow the whole job; what cannot be computed allows no raise.

    Of a sum over jobs, one that is raised takes a part only: its user's others run beside it.
    """
    allowance, per_cpu = rules.allowance, rules.def_mem_per_cpu_mib
    if allowance.by_other_means or allowance.used_up:
        return 0
    limits = [allowance.max_cpus, _part(allowance.sum_cpus)]
    minutes = job.time_limit_minutes
    over_time = (allowance.max_cpu_minutes, _part(allowance.sum_cpu_minutes))
    limits += [most // minutes if minutes else 0 for most in over_time if most is not None]
    if allowance.max_mem_mib is not None and per_cpu and names_no_memory(job):
        limits.append(allowance.max_mem_mib // per_cpu)
    return min((limit for limit in limits if limit is not None), default=None)


def _part(limit: int | None) -> int | None:
    return None if limit is None else limit // _JOBS_IN_A_SUM


def names_no_memory(job: Submission) -> bool:
    """True if the job names no memory by node or by CPU: Slurm's default holds."""
    return job.mem_per_node_mib is None and not job.mem_per_cpu_mib


def floor_for(job: Submission, rules: PartitionRules | None) -> int:
    """Fewest CPUs of one task: a core a GPU, what a QOS wants at least, memory per CPU allowed."""
    least = max(gpus_of(job), (rules and rules.allowance.min_cpus) or 1)
    floor = max(1, -(-least // tasks_of(job)))
    mem_mib, most = task_mem_mib(job, rules), rules and rules.max_mem_per_cpu_mib
    if mem_mib and most:
        floor = max(floor, -(-mem_mib // most))
    return floor


def task_mem_mib(job: Submission, rules: PartitionRules | None) -> int | None:
    """Memory that one task may use, as the job is written; None: not limited by the job."""
    if job.mem_per_node_mib:
        return job.mem_per_node_mib // tasks_of(job)
    per_cpu = per_cpu_mib(job, rules)
    return None if per_cpu is None else per_cpu * cpus_of(job)


def most_per_cpu_mib(job: Submission, cpus: int, rules: PartitionRules | None) -> int | None:
    """Memory of each of a task's `cpus` that its node and its account have room for."""
    if rules is None:
        return None
    limits = [m for m in (rules.mem_per_node_mib, rules.allowance.max_mem_mib) if m is not None]
    return min(limits) // (tasks_of(job) * cpus) if limits else None


def per_cpu_mib(job: Submission, rules: PartitionRules | None) -> int | None:
    """Memory that comes with each CPU, asked for or the partition's default; None: it does not."""
    if job.mem_per_node_mib is not None:
        return None
    return job.mem_per_cpu_mib or (rules and rules.def_mem_per_cpu_mib) or None


def cpus_of(job: Submission) -> int:
    """CPUs of one task as written; Slurm's default is one."""
    return max(1, job.cpus_per_task or 1)


def tasks_of(job: Submission) -> int:
    """Tasks of a one-node job."""
    return max(1, job.num_tasks or job.ntasks_per_node or 1)
