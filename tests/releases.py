"""What differs between releases of Slurm, in one place: `make matrix` runs tests under each."""

from slurm_ext.sandbox import Sandbox

NODE_SEES_CANCELS_BEFORE = (24, 11)  # from then on slurmd calls a cancelled job by its exit status
KEEPS_GPUS_PER_TASK_FROM = (24, 11)  # steps ask for them again, so the job is not changed


def shares_gpus_per_task(slurm: Sandbox) -> bool:
    """Whether a job that asks for a GPU per task can be given a part of one."""
    return slurm.plan.slurm_version < KEEPS_GPUS_PER_TASK_FROM


def ends_of_cancelled(slurm: Sandbox) -> set[str]:
    """How the node's own record may call a cancelled job, before the advisor asks Slurm."""
    if slurm.plan.slurm_version < NODE_SEES_CANCELS_BEFORE:
        return {"CANCELLED"}
    return {"CANCELLED", "COMPLETED", "FAILED"}
