"""The devices that a submission asks for, as far as evidence looks at them. Pure."""

from operator import attrgetter

from slurm_ext.core.gpu_request import (
    devices_per_node,
    gpu_types,
    gpus_of,
    nodes_of,
    plain_name,
    tasks_of,
)
from slurm_ext.core.records import Submission

_UNKNOWN = "?"  # stands for every model that nobody has run on
_LISTS = ("tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket", "gres")
_lists = attrgetter(*_LISTS)
_rest = attrgetter(
    "cpus_per_tres",
    "num_tasks",
    "ntasks_per_node",
    "ntasks_per_tres",
    "min_nodes",
    "shared",
    "array",
)


def model_asked(job: Submission) -> str | None:
    """The model of GPU that the job names; a name without digits says none."""
    kind = next(iter(gpu_types(job)), None)
    return kind if kind is not None and any(map(str.isdigit, kind)) else None


def asked_key(job: Submission, models: str) -> tuple[object, ...]:
    """A key that is equal for jobs of which runs say the same.

    `models`: plain names of all that anybody has run on. No run is of another one, so that a user
    who makes up names of models has the same answer to all of them.
    """
    if not any(_lists(job)):
        return _rest(job)
    model = model_asked(job)
    if model is not None and plain_name(model) not in models:
        model = _UNKNOWN
    devices = gpus_of(job), devices_per_node(job) > 0
    return (*devices, nodes_of(job), tasks_of(job), model, job.shared, job.array is None)
