"""Chooses the counters of a slowdown model: those that most of the jobs have.

Names and units: node/record/reader.py; sums are a second of the run, levels as they are
(training/slowdown/history_runs.py). Offsets keep a logarithm from making much of next to nothing.
"""

from collections.abc import Mapping, Sequence
from math import isnan

from slurm_ext.model.slowdown.features import CounterColumn
from slurm_ext.training.slowdown.fit_counter_model import CounterPlan

SHARE_OF_JOBS = 0.5  # that must have a counter
CPU = (
    CounterColumn("cpu_user", 0.05),
    CounterColumn("cpu_system", 0.01),
    CounterColumn("perf_instructions", None, "perf_cycles"),
    CounterColumn("perf_stalled_cycles", None, "perf_cycles"),
    CounterColumn("perf_llc_misses", 1e-5, "perf_instructions"),
    CounterColumn("perf_l2_misses", 1e-5, "perf_instructions"),
    CounterColumn("perf_branch_misses", 1e-5, "perf_instructions"),
    CounterColumn("perf_mem_bytes", 1e7),
    CounterColumn("io_read", 1e5),
    CounterColumn("io_write", 1e5),
)
GPU = (
    CounterColumn("gpu_job_util"),
    CounterColumn("gpu_util"),
    CounterColumn("gpu_mem_util"),
    CounterColumn("gpu_sm_active"),
    CounterColumn("gpu_sm_occupancy"),
    CounterColumn("gpu_tensor_active"),
    CounterColumn("gpu_dram_active"),
    CounterColumn("gpu_pcie_rx", 1e6),
)
# One view on how busy the device is alone, one on everything: no counter is trusted alone.
BUSY = {True: ("cpu_user", "perf_mem_bytes"), False: ("gpu_util", "gpu_sm_active")}


def plan(jobs: Sequence[Mapping[str, float]], device: str) -> CounterPlan | None:
    """Choose columns and views for `device` ("cpu" or a GPU's model); None if too few counters."""
    on_cpu = device == "cpu"
    columns = tuple(column for column in (CPU if on_cpu else GPU) if _counted(column, jobs))
    if not columns:
        return None
    names = [column.name for column in columns]
    busy = tuple(name for name in BUSY[on_cpu] if name in names)
    views = tuple(view for view in (busy, tuple(names)) if view)
    return CounterPlan(device=device, columns=columns, views=views)


def _counted(column: CounterColumn, jobs: Sequence[Mapping[str, float]]) -> bool:
    values = [column.of(job) for job in jobs]
    measured = [value for value in values if not isnan(value)]
    return len(measured) > SHARE_OF_JOBS * len(jobs) and len(set(measured)) > 1
