"""Finds a ceiling of storage in runs: more workers that bring no more samples.

One run cannot tell slow storage from long reads; two at different worker counts can.
"""

from collections.abc import Sequence
from math import inf

from slurm_ext.core.records import LoaderRun

MORE_WORKERS = 1.5
NO_MORE_SAMPLES = 1.15
BUSY_CORES = 0.75  # from here on the cores may be what holds the workers back
CROWDED = 0.25  # of the time of a fetch: others had the cores, and the storage is not at fault
DATA_BOUND = 0.9  # of the accelerator's rate: above it the workers are waiting, not reading


def ceiling(runs: Sequence[LoaderRun]) -> float | None:
    """Samples/s that storage gave where workers stopped helping; None: no sign of it."""
    reading = sorted(filter(_held_by_reading, runs), key=lambda run: run.workers)
    saturated = [
        max(few.samples_per_s, many.samples_per_s)
        for few in reading
        for many in reading
        if many.workers >= MORE_WORKERS * few.workers
        and many.samples_per_s <= NO_MORE_SAMPLES * few.samples_per_s
    ]
    return max(saturated, default=None)


def knee(ceiling_samples_per_s: float | None, runs: Sequence[LoaderRun]) -> float:
    """Workers that reach the ceiling; runs with more measured the queue at the storage."""
    if ceiling_samples_per_s is None:
        return inf
    fewest = min((run for run in runs if run.workers > 0), key=lambda run: run.workers)
    alone_s = fewest.fetch_wall_s - (fewest.fetch_queued_s or 0.0)
    return max(float(fewest.workers), ceiling_samples_per_s * alone_s)


def _held_by_reading(run: LoaderRun) -> bool:
    busy = run.samples_per_s * (run.fetch_cpu_s + (run.main_cpu_s or 0.0)) / run.cores
    return (
        run.workers > 0
        and busy < BUSY_CORES
        and (run.fetch_queued_s or 0.0) < CROWDED * run.fetch_wall_s
        and run.samples_per_s < DATA_BOUND * run.accel_samples_per_s
    )
