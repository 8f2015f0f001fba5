"""Which submissions dlqueue stays away from, and why (DESIGN section 4). Pure."""

from typing import TYPE_CHECKING

from slurm_ext.advisor.limits.bounds import PartitionRules, cpus_of, names_no_memory
from slurm_ext.core.gpu_request import gpus_of
from slurm_ext.core.records import Mode, Submission
from slurm_ext.core.settings.document import Settings

if TYPE_CHECKING:
    from slurm_ext.slurm import JobInfo

OPT_OUT = "dlqueue=off"
SHARE, ALONE = "dlqueue=share", "dlqueue=alone"
MARK = "DLQUEUE_SHARED"  # in a job's environment: the part of a GPU that it was given
_TOLD = ("DLQUEUE_NUM_WORKERS", "DLQUEUE_NUM_THREADS", "DLQUEUE_BUCKETS", "DLQUEUE_AUTOTUNE")
_LAYOUT = (
    "ntasks_per_core",
    "ntasks_per_socket",
    "sockets_per_node",
    "cores_per_socket",
    "threads_per_core",
    "binds_gres",
)
_YES, _NO = frozenset({"1", "yes", "true", "on"}), frozenset({"0", "no", "false", "off"})


def why_skipped(job: Submission) -> str | None:
    """Return the reason for no token and no edit; None: dlqueue may learn from the job."""
    if OPT_OUT in words_of(job) or job.env.get("DLQUEUE", "").strip().lower() == "off":
        return "opted out"
    if job.script is None:
        return "has no script: salloc and srun are never edited"
    if job.script_truncated:
        return "its script is too long to be read"
    if job.array is not None:
        return "is an array: its tasks share one submission"
    if job.het_offset is not None:
        return "is a heterogeneous job"
    return None


def why_not_edited(job: Submission) -> str | None:
    """Return the reason for learning from the job without edits; None: it may be edited."""
    if job.shared == 0:
        return "--exclusive gives it whole nodes anyway"
    if job.reservation is not None:
        return "it runs in a reservation"
    if job.cpus_per_tres is not None:
        return "--cpus-per-gpu sets its CPUs"
    if job.mem_per_tres is not None:
        return "--mem-per-gpu sets its memory"
    if (job.pn_min_cpus or 1) > cpus_of(job):
        return "--mincpus sets its CPUs"
    if job.num_tasks is None and _gpus_set_tasks(job):
        return "its GPUs set its tasks"
    if any(getattr(job, name) is not None for name in _LAYOUT):
        return "it chooses sockets, cores or threads of its own"
    if max(job.min_nodes or 1, job.max_nodes or 1) > 1:
        return "it spans several nodes"
    return None


def why_not_here(job: Submission, rules: PartitionRules | None) -> str | None:
    """Return the reason against edits in the job's partition; None: it may be edited."""
    if rules is not None and rules.whole_nodes:
        return "its partition gives whole nodes anyway"
    if rules is not None and rules.cpus_by_gpu and job.cpus_per_task is None and gpus_of(job):
        return "JobDefaults sets its CPUs by the GPU"
    if rules is not None and rules.mem_by_gpu and gpus_of(job) and names_no_memory(job):
        return "JobDefaults sets its memory by the GPU"
    return None


def _gpus_set_tasks(job: Submission) -> bool:
    """True if Slurm works out the number of tasks from that of the GPUs."""
    spread = job.tres_per_task is not None and job.tres_per_job is not None
    return job.ntasks_per_tres is not None or spread


def mode_of(job: Submission, settings: Settings, key: str) -> Mode:
    """Mode of one thing that has a mode of its own: never farther than the job's general one."""
    order = list(Mode)
    return min(settings.mode_for(job.partition, job.account), Mode(settings[key]), key=order.index)


def wants_to_share(job: Submission, settings: Settings) -> bool:
    """True if the job, its account or every partition of it agreed to share."""
    words, wish = words_of(job), job.env.get("DLQUEUE_SHARE", "").strip().lower()
    if ALONE in words or wish in _NO:
        return False
    if SHARE in words or wish in _YES:
        return True
    accounts, partitions = settings["sharing.accounts"], settings["sharing.partitions"]
    named = (job.partition or "").split(",")
    everywhere = "*" in partitions or all(name in partitions for name in named)
    return "*" in accounts or job.account in accounts or everywhere


def tunes_itself(job: Submission, settings: Settings) -> bool:
    """True if the site lets this job's loaders find their own workers, and the job agrees."""
    acts = settings.mode_for(job.partition, job.account) is Mode.ACT
    wish = job.env.get("DLQUEUE_AUTOTUNE", "").strip().lower()
    return bool(settings["policy.autotune"]) and acts and wish not in _NO


def words_of(job: "Submission | JobInfo") -> list[str]:
    """Words of the user's comment."""
    return (job.comment or "").replace(",", " ").replace(";", " ").split()


def of_another_job(job: Submission) -> tuple[str, ...]:
    """Variables that a job which another job submits inherits, and that were meant for that one."""
    reason = _TOLD if job.env.get("DLQUEUE_DECISION") else ()
    return tuple(name for name in (MARK, *reason) if job.env.get(name))
