"""Which live counters a model of sharing looks at: those that most of the jobs have.

Names and units: node/record/reader.py; sums are a second of the run, levels as they are
(training/slowdown/history_runs.py). Offsets keep a logarithm from making much of next to nothing.
"""

from collections.abc import Mapping, Sequence
from math import isnan

from slurm_ext.model.slowdown.features import Column
from slurm_ext.training.slowdown.fit_counter_model import Plan

SHARE_OF_JOBS = 0.5  # that must have a counter
CPU = (
    Column("cpu_user", 0.05),
    Column("cpu_system", 0.01),
    Column("perf_instructions", None, "perf_cycles"),
    Column("perf_stalled_cycles", None, "perf_cycles"),
    Column("perf_llc_misses", 1e-5, "perf_instructions"),
    Column("perf_l2_misses", 1e-5, "perf_instructions"),
    Column("perf_branch_misses", 1e-5, "perf_instructions"),
    Column("perf_mem_bytes", 1e7),
    Column("io_read", 1e5),
    Column("io_write", 1e5),
    Column("contention_sensitivity"),
    Column("contention_pressure"),
)
GPU = (
    Column("gpu_job_util"),
    Column("gpu_util"),
    Column("gpu_mem_util"),
    Column("gpu_sm_active"),
    Column("gpu_sm_occupancy"),
    Column("gpu_tensor_active"),
    Column("gpu_dram_active"),
    Column("gpu_pcie_rx", 1e6),
)
# One view on how busy the device is alone, one on everything: no counter is trusted alone.
BUSY = {True: ("cpu_user", "perf_mem_bytes"), False: ("gpu_util", "gpu_sm_active")}


def plan(jobs: Sequence[Mapping[str, float]], device: str) -> Plan | None:
    """What to look at on `device` ("cpu" or a GPU's model); None where too little was counted."""
    on_cpu = device == "cpu"
    columns = tuple(one for one in (CPU if on_cpu else GPU) if _counted(one, jobs))
    if not columns:
        return None
    names = [one.name for one in columns]
    busy = tuple(name for name in BUSY[on_cpu] if name in names)
    views = tuple(view for view in (busy, tuple(names)) if view)
    return Plan(device=device, columns=columns, views=views)


def _counted(column: Column, jobs: Sequence[Mapping[str, float]]) -> bool:
    values = [column.of(job) for job in jobs]
    known = [value for value in values if not isnan(value)]
    return len(known) > SHARE_OF_JOBS * len(jobs) and len(set(known)) > 1
