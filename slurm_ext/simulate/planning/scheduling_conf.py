"""The way through the queue of a site: SchedulerParameters of its slurm.conf."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurm_ext.simulate.planning.scheduling import Scheduling
from slurm_ext.simulate.planning.slurm_conf import global_values, number

KEY = "schedulerparameters"
# Parameter: field of Scheduling, and what one of its units is.
READ = {
    "bf_max_job_test": ("depth", 1),
    "bf_window": ("window_s", 60),
    "bf_resolution": ("resolution_s", 1),
    "bf_interval": ("interval_s", 1),
    "bf_window_linear": ("linear_s", 1),
    "default_queue_depth": ("queue_depth", 1),
    "sched_interval": ("sched_interval_s", 1),
}
COUNTS = ("depth", "queue_depth")
# They change who starts, and are not replayed.
NOT_REPLAYED = (
    "bf_max_job_user",
    "bf_max_job_assoc",
    "bf_max_job_part",
    "bf_max_job_start",
    "bf_max_job_array_resv",
    "bf_min_age_reserve",
    "bf_min_prio_reserve",
    "bf_busy_nodes",
    "bf_one_resv_per_job",
    "partition_job_depth",
    "pack_serial_at_end",
    "assoc_limit_stop",
    "batch_sched_delay",
    "bf_job_part_count_reserve",
    "bf_licenses",
    "defer",
    "delay_boot",
    "enable_user_top",
    "preempt_youngest_first",
    "reduce_completing_frag",
    "sched_max_job_start",
)


def read_scheduling(path: Path) -> Scheduling:
    """The file's parameters, and Slurm's defaults. Raises InputError, naming the key."""
    values = _parameters(path)
    parameters: dict[str, Any] = {
        field: number(values, name, 0.0, path) * unit
        for name, (field, unit) in READ.items()
        if values.get(name)
    }
    for name in COUNTS:
        if name in parameters:
            parameters[name] = max(1, int(parameters[name]))
    return Scheduling(**parameters)


def not_replayed(path: Path) -> Sequence[str]:
    """Parameters that the file sets and that no replay has."""
    values = _parameters(path)
    return [name for name in NOT_REPLAYED if name in values]


def _parameters(path: Path) -> dict[str, str]:
    parts = (part.strip().partition("=") for part in global_values(path).get(KEY, "").split(","))
    return {name.lower(): value for name, _, value in parts}
