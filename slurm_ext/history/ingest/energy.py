"""What a run's energy was, from its record's counters. Pure.

Two meters, kept apart, each of more than the run: NVML's of each whole GPU that it had (source
`nvml/<UUID>`), RAPL's of the node's processors and memory, whoever worked there (`rapl/node`).
Absent where nothing measured it; never an estimate.
"""

from collections.abc import Iterable

Counter = tuple[tuple[str, str, str], float | None]  # (name, unit, source), value
COLUMNS = ("gpu_energy_j", "node_energy_j")
GPU = "gpu_energy"
ALL = "node_energy_all"  # psys: the whole board, what the other two count included
PARTS = ("node_energy_cpu", "node_energy_dram")


def energy_of(counters: Iterable[Counter]) -> tuple[float | None, float | None]:
    """Joules of COLUMNS."""
    known = [(name, value) for (name, _, _), value in counters if value is not None and value >= 0]
    board = [value for name, value in known if name == ALL]
    parts = [value for name, value in known if name in PARTS]
    return _sum([value for name, value in known if name == GPU]), _sum(board or parts)


def _sum(values: list[float]) -> float | None:
    return sum(values) if values else None
