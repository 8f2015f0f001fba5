"""A run's energy in joules, by the meters that there were; nothing is estimated."""

from collections.abc import Iterator, Mapping
from typing import Any

NVML = "nvml"  # whole GPUs
RAPL = "rapl/node"  # the whole node's processors and memory, whoever worked there


def energy_of(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """`{gpu_j, gpu_source, node_j, node_source, cpus, node_cores}`; None where nothing measured."""
    gpu, node = run["gpu_energy_j"], run["node_energy_j"]
    if gpu is None and node is None:
        return None
    return {
        "gpu_j": gpu,
        "gpu_source": None if gpu is None else NVML,
        "node_j": node,
        "node_source": None if node is None else RAPL,
        "cpus": run["cpus"],
        "node_cores": run["node_cores"],
    }


def lines(energy: Mapping[str, Any]) -> Iterator[str]:
    """For people: one line."""
    from slurm_ext.report.formatting import energy as said

    parts = []
    if energy["gpu_j"] is not None:
        parts.append(f"{said(energy['gpu_j'])} by its GPUs (NVML)")
    if energy["node_j"] is not None:
        share = ""
        if energy["cpus"] and energy["node_cores"]:
            share = f", of whose {energy['node_cores']} cores it held {energy['cpus']}"
        parts.append(f"{said(energy['node_j'])} by all processors of the node (RAPL){share}")
    yield f"energy:   {'; '.join(parts)}"
