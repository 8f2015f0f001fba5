"""Energy of a run, from its record's counters. Pure.

Two meters, kept apart, each of more than the run: NVML's of each whole GPU that it had (source
`nvml/<UUID>`), RAPL's of the node's processors and memory, whoever worked there (`rapl/node`).
Absent where nothing measured it; never an estimate.
"""

from collections.abc import Iterable

Counter = tuple[tuple[str, str, str], float | None]  # (name, unit, source), value
GPU = "gpu_energy"
ALL = "node_energy_all"  # psys: the whole board, which includes the other two
PARTS = ("node_energy_cpu", "node_energy_dram")


def energy_of(counters: Iterable[Counter]) -> tuple[float | None, float | None]:
    """Joules of the run's GPUs and of its node."""
    joules: dict[str, float] = {}
    for (name, _, _), value in counters:
        if value is not None and value >= 0 and "energy" in name:
            kind = "parts" if name in PARTS else name
            joules[kind] = joules.get(kind, 0.0) + value
    return joules.get(GPU), joules.get(ALL, joules.get("parts"))
