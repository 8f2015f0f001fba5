"""Slurm's way through its queue: SchedulerParameters of slurm.conf(5), with its defaults."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """`reservations`: for how many waiting jobs backfill keeps room; None: for all it looks at."""

    reservations: int | None = None
    depth: int = 500  # bf_max_job_test: waiting jobs that backfill looks at
    window_s: float = 86400.0  # bf_window: what would start later has no reservation
    resolution_s: float = 60.0  # bf_resolution: of reservations
    interval_s: float = 30.0  # bf_interval: between two rounds of backfill
    step_s: float = 30.0  # jobs that end so close together count as ending at once, at first
    linear_s: float = 0.0  # bf_window_linear: by how much the step grows; 0: it doubles
    queue_depth: int = 100  # default_queue_depth: jobs that may start in order at one event
    sched_interval_s: float = 60.0  # sched_interval: when the next of them are looked at
    packed: bool = False  # a part of a node goes where it fits best of all nodes


def exact(reservations: int | None, depth: int) -> Scheduling:
    """Backfill at every event and without rounding: what a policy of a paper has."""
    return Scheduling(
        reservations=reservations,
        depth=depth,
        window_s=inf,
        resolution_s=0.0,
        interval_s=0.0,
        step_s=0.0,
        queue_depth=10**9,
        packed=True,
    )
