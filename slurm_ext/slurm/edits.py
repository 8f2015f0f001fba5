"""Arguments of `scontrol update` for the resources of a waiting job. Pure.

An update takes `Gres=`, never TresPerNode=, and only of a job that asked by node. Slurm 22.05 does
not add up CPUs when tasks change, so that their sum is set as well.
"""

from slurm_ext.slurm.records import ResizeRequest


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
