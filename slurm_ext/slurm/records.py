"""Jobs, partitions, nodes and accounts as Slurm describes them.

None means not set; of a limit, no limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from slurm_ext.core.gpu_request import devices

ENDED_STATES = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"}
    | {"OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """One job that slurmctld knows (an ended one for MinJobAge); times are Unix seconds."""

    job_id: int
    user_name: str = ""
    user_id: int = -1
    name: str = ""
    state: str = "UNKNOWN"  # the base state, in Slurm's words
    partition: str = ""
    account: str = ""
    work_dir: str = ""
    command: str = ""  # its script and the arguments behind it
    submit_time_s: int | None = None
    start_time_s: int | None = None  # of a pending job: when Slurm expects to start it
    end_time_s: int | None = None  # of a running job: when its time is up
    time_limit_minutes: int | None = None
    restarts: int = 0
    nodes: str = ""  # Slurm's host list, such as n[1-4]
    cpus: int | None = None
    gres: str = ""  # every tres_per_* as squeue shows it, joined by commas
    exit_code: int | None = None
    exit_signal: int | None = None
    comment: str = ""
    admin_comment: str = ""
    array_job_id: int | None = None
    het_job_id: int | None = None
    priority: int | None = None
    reason: str = ""  # why it waits, in Slurm's word
    reason_detail: str = ""  # in Slurm's words, where one does not do
    eligible_time_s: int | None = None  # of a pending job: it does not start before
    node_count: int | None = None
    required_nodes: str = ""
    excluded_nodes: str = ""
    requeues: bool = False  # its user lets Slurm requeue it
    nice: int = 0
    qos: str = ""
    reservation: str = ""
    dependency: str = ""  # jobs that it waits for, in Slurm's words
    gpus: int | None = None  # of the whole job; None: it asks for none
    mem_mib: int | None = None  # of the whole job
    tasks: int | None = None
    array_task_id: int | None = None  # of a task with a record of its own
    array_tasks: str = ""  # tasks that wait under one id: 0-3%2
    array_most: int | None = None  # tasks of its array that may run at once

    @property
    def ended(self) -> bool:
        """True if the job is over and will not start again under this restart count."""
        return self.state in ENDED_STATES

    @property
    def devices_per_node(self) -> int:
        """GPUs on its fullest node, as a run record counts them; a part of one is one."""
        return devices(self.gpus or 0, self.node_count or 1, [self.gres])

    @property
    def named(self) -> str:
        """Id as squeue writes it: 1042, 1042_7, 1042_[0-3%2]."""
        if self.array_job_id is None:
            return str(self.job_id)
        task = f"[{self.array_tasks}]" if self.array_task_id is None else self.array_task_id
        return f"{self.array_job_id}_{task}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeRequest:
    """New resources of a waiting job; None leaves one as it is."""

    nodes: int | None = None
    gpus_per_node: int | None = None  # of jobs that asked by --gres or --gpus-per-node
    tasks: int | None = None
    cpus_per_task: int | None = None

    @property
    def cpus(self) -> int | None:
        """CPUs of the whole job; None if that depends on fields that stay."""
        if self.tasks is None or self.cpus_per_task is None:
            return None
        return self.tasks * self.cpus_per_task


class PowerCommand(StrEnum):
    """New power state of a node, in scontrol's words."""

    UP = "POWER_UP"
    DOWN = "POWER_DOWN"  # when it is idle; until then jobs may start there (22.05.8)
    DOWN_ASAP = "POWER_DOWN_ASAP"  # the same, drained until then
    DOWN_FORCE = "POWER_DOWN_FORCE"  # at once, even if jobs run there


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """The limits of one partition."""

    name: str
    default: bool = False
    nodes: str = ""
    qos: str = ""  # its limits hold for every job here
    max_time_minutes: float | None = None
    default_time_minutes: float | None = None  # of a job that names none; None: max_time_minutes
    max_cpus_per_node: int | None = None
    max_cpus_per_socket: int | None = None
    max_mem_per_cpu_mib: int | None = None
    max_mem_per_node_mib: int | None = None
    def_mem_per_cpu_mib: int | None = None
    def_mem_per_node_mib: int | None = None
    billing: str = ""  # TRESBillingWeights
    job_defaults: str = ""  # CPUs and memory of a job for each of its GPUs
    exclusive: bool = False  # OverSubscribe=EXCLUSIVE: jobs have whole nodes
    state: str = "UP"
    min_nodes: int | None = None
    max_nodes: int | None = None
    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # accounts, qos; else all
    denied: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the same


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountedEnd:
    """One start of a job, as slurmdbd has it; times are Unix seconds."""

    job_id: int
    user_id: int
    state: str  # in Slurm's words
    start_time_s: int
    end_time_s: int | None  # None: it runs, for all that slurmdbd was told


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """One node as it is configured."""

    name: str
    cpus: int  # that jobs may have: those of CoreSpecCount and CpuSpecList are the system's
    mem_mib: int  # without MemSpecLimit
    gres: Mapping[str, int] = field(default_factory=dict)  # gpu, gpu:a100, mps, ... → count
    state: str = "UNKNOWN"
    partitions: tuple[str, ...] = ()
    sockets: int = 1
    features: tuple[str, ...] = ()
    release: str = ""  # of its slurmd; none until it has registered


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationInfo:
    """Nodes that are reserved for a time (Unix seconds)."""

    name: str
    nodes: tuple[str, ...]
    start_s: float
    end_s: float
    flags: tuple[str, ...] = ()  # MAINT, ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAllowance:
    """Limits of one job by an association or a QOS."""

    min_cpus: int | None = None
    max_cpus: int | None = None
    max_mem_mib: int | None = None
    max_cpu_minutes: int | None = None  # CPUs times the job's time limit
    sum_cpus: int | None = None  # of all jobs of its user or group together, at most
    sum_cpu_minutes: int | None = None  # of those that run, with what is left of their time limits
    used_up: bool = False  # CPU time is counted over months: what is left of it is not known
    max_gpus: int | None = None
    max_gpu_minutes: int | None = None
    max_user_gpus: int | None = None  # of all jobs of its user together, at most
    by_other_means: bool = False  # limits in units that dlqueue cannot compute, such as billing
    max_mps: int | None = None  # of one job; 0: GPUs are limited and these would not count
    max_shard: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """One account (no user), or a user in it, maybe in one partition only."""

    account: str
    user: str = ""
    partition: str = ""
    parent: str = ""  # the account above an account
    default_qos: str = ""
    qos: tuple[str, ...] = ()  # that its jobs may use
    allowance: JobAllowance = field(default_factory=JobAllowance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """Limits that slurmctld enforces beside those of partitions and nodes."""

    associations: tuple[Association, ...] = ()
    qos: Mapping[str, JobAllowance] = field(default_factory=dict)


Limits = Mapping[str, tuple[float, float | None]]
"""Slurm's name of a limit (MaxJobsPU, GrpTRES/cpu) to the limit and its use now, where it has one.

Memory in MiB, times in minutes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnforcedLimits:
    """Limits of one QOS or association, as slurmctld enforces them now."""

    qos: str = ""  # empty: an association
    account: str = ""
    user: str = ""  # of an association; empty: all of the account's users together
    parent: str = ""  # the account above an account
    limits: Limits = field(default_factory=dict)
    by_user: Mapping[int, Limits] = field(default_factory=dict)  # of a QOS, by user id
    by_account: Mapping[str, Limits] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEstimate:
    """Start of a job that is not submitted; exactly one field is set."""

    start_s: int | None = None  # Unix seconds
    refused: str | None = None  # why Slurm would refuse it, in one clause
    why: str | None = None  # why the time is not known


def update_words(request: ResizeRequest) -> list[str]:
    """Return the arguments for fields that are not None; empty: nothing changes."""
    fields = {
        "NumNodes": request.nodes,
        "NumTasks": request.tasks,
        "NumCPUs": request.cpus,
        "CpusPerTask": request.cpus_per_task,
        "Gres": None if request.gpus_per_node is None else f"gpu:{request.gpus_per_node}",
    }
    return [f"{name}={value}" for name, value in fields.items() if value is not None]
