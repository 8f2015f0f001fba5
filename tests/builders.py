"""Runs of a training as tests need them: one place for the figures that many tests start from."""

from dataclasses import replace
from typing import Any

from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.model.throughput.estimate import Estimate, estimate

# One worker where four cores are there: its data costs 20 ms a sample, nearly all of it CPU time.
STARVED = LoaderRun(
    samples_per_s=48,
    workers=1,
    cores=4,
    batch_size=32,
    accel_samples_per_s=400,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.018,
    main_cpu_s=0.0001,
    worker_rss_bytes=200 << 20,
    node_cores=4,
    emulated=True,
)
# Two workers that wait for storage: more of them read faster.
STORAGE_BOUND = LoaderRun(
    samples_per_s=100.0,
    workers=2,
    cores=2,
    batch_size=8,
    accel_samples_per_s=400.0,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.001,
    main_cpu_s=0.0001,
)


def estimate_of(run: LoaderRun, **changes: Any) -> Estimate:
    """The estimate from one run of this very script, with some of its figures changed."""
    known = estimate({Level.SCRIPT_ARGS: [replace(run, **changes)]})
    assert known is not None
    return known
