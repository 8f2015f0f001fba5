"""Requests for one whole GPU, and the fields to clear for a part of one instead.

Slurm hands over each way of asking as a field of its own, in words that differ by release
(`gres:gpu:1` up to 22.05, `gres/gpu:a100:1` and `gres/gpu=1` later), and leaves variables behind
that have every `srun` of the job ask for the GPU again (slurm-facts 0.6, 2.1). Pure.
"""

import re
from dataclasses import dataclass

from slurm_ext.advisor.limits.bounds import tasks_of
from slurm_ext.core.gpu_request import UNITS, Gres, parse_gres
from slurm_ext.core.records import Submission

STALE = ("SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK")
BIND = "SLURM_TRES_BIND"  # emptied, it takes a step's GPU away on 25.11: it has to be unset
_STEP_OPTIONS = ("--gres", "--gpus", "--gpu-", "--tres", "-G")
# Their first character stands before the look behind it, since a plain one is found much faster.
_STEP_OPTION = re.compile(rf"-(?<!\S-)(?:{'|'.join(name[1:] for name in _STEP_OPTIONS)})")
_OF_GPUS = (
    ("mem_per_tres", "its memory goes by its GPU"),
    ("ntasks_per_tres", "its tasks go by its GPU"),
    ("tres_freq", "it sets its GPU's frequency"),
    ("cpus_per_tres", "its CPUs go by its GPU"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeGpuRequest:
    """A request for one GPU, in the job's own spelling."""

    gpu_type: str = ""  # a100; empty: any
    emptied: tuple[str, ...] = ()  # fields to clear when `gres` takes their place
    stale: tuple[str, ...] = ()  # variables of the job to empty
    bound: bool = False  # SLURM_TRES_BIND is set, which only the task prolog can unset


def whole_gpu_request(job: Submission) -> WholeGpuRequest | str | None:
    """Return the request, or why it cannot share; None: no GPU, or a part of one already."""
    fields = [f"tres_per_{unit}" for unit in UNITS]
    requested = [(field, item) for field in fields for item in parse_gres(getattr(job, field))]
    gpus = [(field, item) for field, item in requested if item.kind == "gpu"]
    if not gpus:
        return None
    why = _more_than_one(job, requested, gpus) or _bound_to_it(job) or _used_by_script(job)
    if why is not None:
        return why
    ((field, item),) = gpus
    bind = ("tres_bind",) if job.tres_bind else ()
    return WholeGpuRequest(
        gpu_type=item.type,
        emptied=(*(() if field == "tres_per_node" else (field,)), *bind),
        stale=tuple(name for name in STALE if job.env.get(name)),
        bound=bool(job.tres_bind or job.env.get(BIND)),
    )


def _more_than_one(
    job: Submission, requested: list[tuple[str, Gres]], gpus: list[tuple[str, Gres]]
) -> str | None:
    field, item = gpus[0]
    if len(gpus) > 1 or item.count != 1:
        return "it asks for more than one GPU"
    if field == "tres_per_socket":
        return "it asks for a GPU of every socket"
    if tasks_of(job) > 1:
        return "it has several tasks"
    harmless = [item for item in requested if item[0] == "tres_per_task" and item[1].kind == "cpu"]
    if len(requested) - len(harmless) > 1 or (field == "tres_per_task" and harmless):
        return "it asks for something else beside its GPU"
    return None


def _bound_to_it(job: Submission) -> str | None:
    """Return an option that goes by GPUs: Slurm rejects such a job without a GPU."""
    for name, why in _OF_GPUS:
        if getattr(job, name) is not None:
            return why
    if job.tres_bind and "per_task" not in job.tres_bind:
        return "it binds its tasks to GPUs"
    if "gpu" in job.env.get("SLURM_TRES_PER_TASK", ""):
        return "its steps ask for a GPU of their own"
    return None


def _used_by_script(job: Submission) -> str | None:
    """A step that asks for a GPU would fail, and so would what reads an emptied variable."""
    script = (job.script or "").replace("\\\n", " ")
    if _STEP_OPTION.search(script):
        lines = script.splitlines()
        steps = [line for line in lines if "srun" in line and line.lstrip()[0] != "#"]
        if _STEP_OPTION.search("\n".join(steps)):
            return "its script asks for GPUs in srun"
    if "SLURM_GPUS" in script.replace("SLURM_GPUS_ON_NODE", ""):
        return "its script reads SLURM_GPUS"
    return None
