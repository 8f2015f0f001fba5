"""Frozen records that travel between rooms. Units stand in the field names.

None means "not set" or "not measured"; it never means zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Mode(StrEnum):
    """Effect that dlqueue may have on a job (DESIGN section 4)."""

    OFF = "off"
    SHADOW = "shadow"  # decide and record, show nothing
    ADVISE = "advise"  # tell the user, change nothing
    ACT = "act"


class Outcome(StrEnum):
    """End of a run, in Slurm's words."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    CANCELLED = "CANCELLED"
    NODE_FAIL = "NODE_FAIL"
    REQUEUED = "REQUEUED"
    UNKNOWN = "UNKNOWN"


class Level(StrEnum):
    """Similarity of the runs behind a prediction, nearest first (DESIGN section 5, idea 3)."""

    SCRIPT_ARGS = "same script and arguments"
    SCRIPT = "same script"
    USER_NAME = "same user and job name"
    OWN_KIND = "same user and kind of program"
    ACCOUNT_KIND = "same account and kind of program"
    KIND = "same kind of program"
    CLUSTER = "this cluster"


OWN_LEVELS = (Level.SCRIPT_ARGS, Level.SCRIPT, Level.USER_NAME, Level.OWN_KIND)
"""Runs of the job's own user: what other users' jobs measured never changes a job."""
SCRIPT_LEVELS = (Level.SCRIPT_ARGS, Level.SCRIPT)
"""Levels at which one run is enough, as the submission is known to do the same work."""
POOLED_LEVELS = (Level.KIND, Level.CLUSTER)
"""Runs of anybody: they inform what is told, and no user has more than a share of them."""
MOST_POOLED = 8  # runs of such a level


ENV_NAMES = (
    "DLQUEUE",
    "SLURM_CPUS_PER_TASK",
    "OMP_NUM_THREADS",
    "PYTHONHASHSEED",
    "DLQUEUE_SHARE",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_TASK",
    "SLURM_TRES_BIND",
    "SLURM_TRES_PER_TASK",
    "DLQUEUE_SHARED",
    "DLQUEUE_ELASTIC",
    "DLQUEUE_SEEDED",
    "DLQUEUE_AUTOTUNE",
    "DLQUEUE_NUM_WORKERS",
    "DLQUEUE_NUM_THREADS",
    "DLQUEUE_BUCKETS",
    "DLQUEUE_DECISION",
)
"""Variables of the job's environment that the advisor sees: enough to decide, nothing private."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One job as `sbatch` hands it over, before any change."""

    name: str = ""
    user_id: int = -1
    user_name: str = ""
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    script: str | None = None  # None: salloc or srun
    script_truncated: bool = False
    argv: tuple[str, ...] = ()
    comment: str | None = None
    work_dir: str = ""
    num_tasks: int | None = None
    ntasks_per_node: int | None = None
    min_nodes: int | None = None
    max_nodes: int | None = None
    cpus_per_task: int | None = None
    min_cpus: int | None = None
    pn_min_cpus: int | None = None
    mem_per_cpu_mib: int | None = None
    mem_per_node_mib: int | None = None
    time_limit_minutes: int | None = None
    shared: int | None = None  # 0 exclusive, 1 oversubscribe, 2 user, 3 mcs
    array: str | None = None
    het_offset: int | None = None
    gres: str | None = None  # every tres_per_* and cpus_per_tres, joined by commas
    cpus_per_tres: str | None = None
    tres_per_node: str | None = None  # Slurm's own words, such as gres:gpu:1 or gres/gpu:a100:1
    tres_per_job: str | None = None
    tres_per_task: str | None = None
    tres_per_socket: str | None = None
    tres_bind: str | None = None
    tres_freq: str | None = None
    mem_per_tres: str | None = None
    ntasks_per_tres: int | None = None
    ntasks_per_core: int | None = None
    ntasks_per_socket: int | None = None
    sockets_per_node: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None  # --hint=nomultithread: 1
    binds_gres: int | None = None  # 1: --gres-flags=enforce-binding
    features: str | None = None
    prefer: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)  # only the names dlqueue asks for


@dataclass(frozen=True, slots=True)
class Interval:
    """A prediction's bounds at `level` (0.9: nine in ten outcomes fall inside)."""

    low: float
    high: float
    level: float = 0.9

    def times(self, factor: float) -> "Interval":
        """The same with both bounds multiplied."""
        return Interval(factor * self.low, factor * self.high, self.level)

    def widened(self, middle: float, factor: float) -> "Interval":
        """The same so many times as far from `middle`, in the log."""
        low, high = (middle * (bound / middle) ** factor for bound in (self.low, self.high))
        return Interval(low, high, self.level)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Expected throughput in the other world that a job may meet: crowded cores, or its own."""

    samples_per_s: float
    interval: Interval
    crowded: bool  # False: here is crowded, and this is on cores of its own

    def times(self, factor: float) -> "Elsewhere":
        """The same with all rates multiplied."""
        return Elsewhere(factor * self.samples_per_s, self.interval.times(factor), self.crowded)

    def widened(self, factor: float) -> "Elsewhere":
        """The same with an interval so many times as wide, in the log."""
        bounds = self.interval.widened(self.samples_per_s, factor)
        return Elsewhere(self.samples_per_s, bounds, self.crowded)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderRun:
    """Measurements of one run's training loader: the inputs of the throughput curve.

    Rates are samples/s of one training process; costs are seconds per sample.
    """

    samples_per_s: float  # steady: of its later epochs, once its workers run
    workers: int
    cores: float  # cores the job could really use: allocation, affinity and machine together
    batch_size: float
    accel_samples_per_s: float  # rate with no waiting for data: samples / time in the step
    fetch_wall_s: float  # one worker's wall time for one sample, waiting for storage included
    fetch_cpu_s: float  # the CPU part of it
    worker_rss_bytes: int | None = None
    main_cpu_s: float | None = None  # CPU of the training process itself for one sample
    bytes_per_sample: float | None = None
    node_cores: int | None = None
    emulated: bool = False  # a stand-in waited where a GPU would compute
    gpus: int = 0
    user_workers: int | None = None  # that the script asked for; `workers` ran
    epoch_samples: float | None = None  # an epoch starts with empty queues; None: none began
    fetch_queued_s: float | None = None  # the part of `fetch_wall_s` that was waiting for a core
    step_queued_s: float | None = None  # wait of the training process for a core in the step
    main_queued_s: float | None = None  # the same in the whole loop, receiving batches included
    sample_bytes: float | None = None  # one sample as the loader hands it over
    doubt: int | None = None  # an UnsupportedLoader: why its curve is ignored
    ranks: int | None = None  # training processes of the whole job
    nodes: int | None = None  # of the whole job; `gpus` are those of one of them
    run_samples: float | None = None  # of all ranks; None: it did not run to its end
    outside_s: float | None = None  # of such a run: start-up, validation, all but the loop
    whole_samples_per_s: float | None = None  # of the whole job, over its training's wall time
    startup_s: float | None = None  # of its workers: mean over its passes, the first left out
    refused: int | None = None  # a LoaderRefusal: why the probe left its workers as they were
    used_cores: float | None = None  # of one task, kept busy in its busiest stretch, by its cgroup
    threads: int | None = None  # of torch, inside one operation
    on_cpu: int | None = None  # 1: it trained on the CPU, and nothing stood in for a GPU
    data_key: int | None = None  # 24 bits that stand for its dataset and its batch
    gpu_model: str | None = None  # by its driver's name


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRun:
    """Measurements of how one run's gradients went to other ranks: what bucket sizes rest on.

    Seconds of the step are one batch's, those of communication one synchronised pass's.
    """

    signature: str  # of the model: sizes and types of its gradients
    ranks: int
    nodes: int
    backend: str | None  # of its process group
    accelerator: str | None
    takes_lists: bool  # of bucket sizes: its torch can
    caps: str | None  # bucket sizes that a submission set (KiB); None: torch's own, or the user's
    left_alone: str | None  # why no submission's are set
    user_caps: bool  # the program sets its own
    comm_hook: str | None  # the program's own
    batch_size: float
    data_key: int | None  # that of its LoaderRun
    step_s: float  # of one batch, steady
    waiting: float  # share of the step that waited for data
    syncs: float  # synchronised passes for each batch
    exposed_s: float  # of a pass: communication that nothing hid, no slower rank waited for
    bucket_bytes: tuple[float, ...]
    ready_bytes: tuple[float, ...]  # gradients that are ready together, in their order
    ready_s: tuple[float, ...]  # from then to the end of the backward pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """CPUs of one task and workers of its loader: the choice of a policy."""

    cpus_per_task: int
    num_workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Expected throughput of a shape, with its evidence."""

    shape: Shape
    samples_per_s: float
    interval: Interval
    bottleneck: str  # one of core/advice/words.py
    level: Level
    runs: int
    elsewhere: Elsewhere | None = None  # the other of two worlds; None: it knows one

    @property
    def crowded(self) -> bool:
        """True if the rate is one beside other jobs on its cores."""
        return self.elsewhere is not None and not self.elsewhere.crowded

    def times(self, factor: float) -> "Prediction":
        """The same with all rates multiplied, as for several ranks."""
        if factor == 1:
            return self
        return replace(
            self,
            samples_per_s=factor * self.samples_per_s,
            interval=self.interval.times(factor),
            elsewhere=self.elsewhere and self.elsewhere.times(factor),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeLimits:
    """Limits that a shape must stay within; None is no limit."""

    max_cpus_per_task: int
    node_cores: int
    mem_bytes: int | None = None
    max_workers: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Choice of the policy for one submission, with its reason; the journal keeps it."""

    action: str  # change | leave
    reason: str  # one clause a researcher understands
    before: Shape
    after: Shape
    predicted_before: Prediction | None = None
    predicted_after: Prediction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """Fields of the job to set, all or none; None leaves a field alone."""

    cpus_per_task: int | None = None
    min_cpus: int | None = None
    pn_min_cpus: int | None = None
    min_mem_per_cpu: int | None = None  # MiB
    min_mem_per_node: int | None = None  # MiB
    gres: str | None = None  # mps:N or shard:N, instead of the job's one GPU
    tres_per_job: str | None = None  # these three only "", together with `gres`: no longer asked
    tres_per_task: str | None = None
    tres_bind: str | None = None
    prefer: str | None = None  # a feature that nodes are known to have; softer than a constraint
    env: Mapping[str, str] = field(default_factory=dict)
