"""Names and units of a record's counters and time line."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

# Bytes of memory are of the moment, all others are totals so far; a row may be shorter than this.
TIMELINE = (
    "t_s",
    "cpu_s",
    "mem_bytes",
    "io_read_bytes",
    "gpu_busy_s",  # over all of its GPUs
    "gpu_mem_bytes",
    "loop_s",  # in loops of training, over all of its processes, by their probe
    "wait_s",  # of that, waiting for data
)
UNITS = {
    "cpu_user": "s",
    "cpu_system": "s",
    "cpu_throttled": "s",
    "mem_peak": "B",
    "mem_held_peak": "B",
    "major_faults": "1",
    "oom_kills": "1",
    "io_read": "B",
    "io_write": "B",
    "context_switches": "1",
    "pressure_cpu_some": "s",
    "pressure_memory_some": "s",
    "pressure_io_some": "s",
    "perf_task_clock": "s",
    "perf_instructions": "1",
    "perf_cycles": "1",
    "perf_llc_misses": "1",
    "perf_llc_references": "1",
    "perf_l2_misses": "1",
    "perf_l2_references": "1",
    "perf_branch_misses": "1",
    "perf_stalled_cycles": "1",
    "perf_mem_bytes": "B",
    "perf_running_share": "1",
    "node_energy_cpu": "J",
    "node_energy_dram": "J",
}
# Of each GPU, by UUID: the whole GPU's, and the job's own part of it (gpu_job_*).
GPU_UNITS = {
    "gpu_util": "1",
    "gpu_mem_util": "1",
    "gpu_mem_peak": "B",
    "gpu_power_mean": "W",
    "gpu_energy": "J",
    "gpu_sm_clock": "Hz",
    "gpu_mem_clock": "Hz",
    "gpu_pcie_tx": "B",
    "gpu_pcie_rx": "B",
    "gpu_nvlink_tx": "B",
    "gpu_nvlink_rx": "B",
    "gpu_sm_active": "1",
    "gpu_sm_occupancy": "1",
    "gpu_tensor_active": "1",
    "gpu_dram_active": "1",
    "gpu_job_util": "1",
    "gpu_job_mem_peak": "B",
}
MAX_WRITTEN = 250  # of one record; record.reader takes up to MAX_COUNTERS
LARGEST = 1e18  # from here on the reader refuses the record (bounds.MAX_NUMBER)


def counter_rows(
    totals: Mapping[str, Sequence[Any]], *, gpus: bool = False
) -> list[dict[str, object]]:
    """The record's `counters`; what has no source ("none") on this node is null, never zero.

    `totals` maps a counter to its source and value; a GPU's is called `<name>@<UUID>` there, and
    has the UUID in its source. With `gpus`, those are listed also without a source.
    """
    rows = [_counter(name, unit, totals.get(name)) for name, unit in UNITS.items()]
    return [*rows, *_of_gpus(totals, gpus)][:MAX_WRITTEN]


def _of_gpus(totals: Mapping[str, Sequence[Any]], gpus: bool) -> Iterator[dict[str, object]]:
    counted = set()
    for key, pair in totals.items():
        name, mark, _ = key.partition("@")
        if mark and name in GPU_UNITS:
            counted.add(name)
            yield _counter(name, GPU_UNITS[name], pair)
    if gpus:
        yield from (_counter(n, u, None) for n, u in GPU_UNITS.items() if n not in counted)


def _counter(name: str, unit: str, pair: Sequence[Any] | None) -> dict[str, object]:
    source, value = pair or ("none", None)
    if value is not None and not -LARGEST < value < LARGEST:
        value = None
    return {"name": name, "unit": unit, "source": source, "value": value}
