"""What `scontrol update` calls the parts of a waiting job's shape. Pure.

An update takes `Gres=`, never TresPerNode=, and only of a job that asked by node. 22.05 does not
add up CPUs when tasks change: the sum is told beside them.
"""

from slurm_ext.slurm.records import ResizeRequest


def words(shape: ResizeRequest) -> list[str]:
    """Arguments for what is not None; empty: nothing changes."""
    told = {
        "NumNodes": _plain(shape.nodes),
        "NumTasks": _plain(shape.tasks),
        "NumCPUs": _plain(shape.cpus),
        "CpusPerTask": _plain(shape.cpus_per_task),
        "Gres": None if shape.gpus_per_node is None else f"gpu:{shape.gpus_per_node}",
    }
    return [f"{name}={value}" for name, value in told.items() if value is not None]


def _plain(number: int | None) -> str | None:
    return None if number is None else str(number)
