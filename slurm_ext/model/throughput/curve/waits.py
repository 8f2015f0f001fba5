"""Waits beside the batches' own costs: for busy cores, and at the begin and end of a pass."""

from slurm_ext.model.floats import FLOATS
from slurm_ext.model.throughput.curve.costs import (
    SLICE_S,
    START_S,
    START_S_PER_WORKER,
    Curve,
    is_serial,
)


def contention_s(curve: Curve, rate: float, workers: float, cores: float) -> float:
    """Seconds that the training process waits for busy cores in each batch, at `rate` samples/s."""
    if curve.threads:
        return 0.0
    m, (wall_s, cpu_s) = curve.arithmetic, curve.worker_s
    whole = m.maximum(1, m.ceil(cores))
    if m is FLOATS and workers < whole:
        return 0.0
    all_busy = m.minimum(1.0, rate * (cpu_s + curve.main_cpu_s) / whole) ** (whole + 1)
    others_busy = m.where(whole > 1, all_busy, 1.0)
    burst = min(1.0, curve.batch_size * cpu_s / SLICE_S) * m.minimum(1.0, cpu_s / wall_s) ** 2
    held_s = curve.slice_s * (1 - (1 - all_busy) * (1 - burst * others_busy))
    return m.where(workers < whole, 0.0, held_s)


def pass_s(curve: Curve, workers: float, cores: float, accelerator: float) -> float:
    """Seconds that a pass over the data takes beside its batches.

    `accelerator`: its share in the bottleneck. Where it is all, it waits for the first batch; where
    it is nothing, the workers are at work all the time. They began together and so end together:
    the steps of their last batches, one of each, come after them.
    """
    if not curve.batch_size or is_serial(workers):
        return 0.0
    m, (wall_s, cpu_s) = curve.arithmetic, curve.worker_s
    first_s = curve.batch_size * m.maximum(wall_s, workers * cpu_s / cores)
    last_s = m.minimum(first_s, workers * curve.batch_size / curve.accel_samples_per_s)
    ends_s = accelerator * first_s + (1 - accelerator) * last_s
    return START_S + START_S_PER_WORKER * workers + ends_s
