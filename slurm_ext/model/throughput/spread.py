"""Spreads of predictions: how far the rate at a shape may be from the curve's. Pure.

Log widths fitted with contrib/bench/curve on a quiet machine, so that nine in ten of its
predictions from one run fall inside; what a cluster adds is calibration.py's to measure.
"""

from typing import Any

from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.floats import FLOATS, Arithmetic
from slurm_ext.model.throughput.curve.costs import is_serial
from slurm_ext.model.throughput.curve.point import Point
from slurm_ext.model.throughput.estimate import Estimate

PER_DOUBLING_SD = 0.01  # of workers, away from the nearest run
PER_CORE_DOUBLING_SD = 0.02
SERIAL_SD = 0.03  # between loading in the training process and in workers
FRACTION_SD = 0.07  # of what less than a core computes: pauses cost more than their time
BALANCE_SD = 0.03  # where two ceilings are near each other, for the smooth-min itself
MODEL_SD = 0.015  # of everything that the curve leaves out: no number of runs takes it away
CONTENTION_SD = 0.3  # of the time that the training process waits for busy cores
# A step on CPUs, for each halving of its cores: threads that outnumber them wait for each other.
FEWER_CORES_SD = 0.5
OTHERS_SD = 0.3  # of the log of what other jobs on its cores cost: they come and go


def log_sd(estimate: Estimate, m: Arithmetic, point: Point, workers: int, cores: float) -> float:
    """Log sd of the rate: each parameter's as far as its ceiling binds, plus the distance."""
    bound, data = point.accelerator, 1 - point.accelerator
    received = 0.0  # share of the loop's time that goes into receiving batches
    if estimate.receive_sd and estimate.batch_size and not is_serial(workers):
        received = bound * point.samples_per_s * estimate.receive_s / estimate.batch_size
    widths = (
        MODEL_SD,
        bound * estimate.accel.log_sd,
        point.wall * estimate.wall.log_sd,
        point.cpu * estimate.cpu.log_sd,
        data * estimate.efficiency.log_sd,
        data * _distance_sd(estimate, m, workers, cores),
        4 * bound * data * BALANCE_SD,
        point.contention * CONTENTION_SD,
        received * estimate.receive_sd,
        bound * _threads_sd(estimate, m, cores) if estimate.threads else 0.0,
    )
    return m.sqrt(sum([width * width for width in widths]))


def crowded_spread(m: Arithmetic, spread: float, share: float, factor: float) -> float:
    """The log half width of an interval on cores that leave so much of the rate."""
    return m.hypot(spread, NORMAL_90 * factor * OTHERS_SD * m.log(share))


def _threads_sd(estimate: Estimate, m: Arithmetic, cores: float) -> float:
    """Log sd of a step on CPUs with other cores than seen.

    One thread on a part of a core has its part, and nobody to wait for. What more threads would
    bring nobody saw: the bound is what as many times the cores could.
    """
    together = estimate.threads > 1
    fewer_sd = FEWER_CORES_SD * m.log2(estimate.threads / cores) if together else FRACTION_SD
    more_sd = m.log(cores / estimate.threads) / NORMAL_90 if estimate.grows else 0.0
    return m.where(cores < estimate.threads, fewer_sd, more_sd)


def _distance_sd(estimate: Estimate, m: Arithmetic, workers: int, cores: float) -> float:
    """Distance of the shape from the nearest run, as a log sd of the loader's supply."""
    if m is FLOATS or not estimate.seen:
        return min([_away_sd(m, workers, cores, *where) for where in estimate.seen], default=0.0)
    many: Any = m
    seen_workers, seen_cores = many.array(estimate.seen).T[..., None, None]
    away: Any = _away_sd(m, workers, cores, seen_workers, seen_cores)
    return away.min(axis=0)  # type: ignore[no-any-return]  # of all runs at once


def _away_sd(
    m: Arithmetic, workers: int, cores: float, seen_workers: int, seen_cores: float
) -> float:
    serial = is_serial(workers) != (seen_workers == 0)
    fraction = (m.minimum(cores, seen_cores) < 1) & (cores != seen_cores)
    return (
        PER_DOUBLING_SD * abs(m.log2(m.maximum(1, workers) / m.maximum(1, seen_workers)))
        + SERIAL_SD * serial
        + PER_CORE_DOUBLING_SD * abs(m.log2(cores / seen_cores))
        + FRACTION_SD * fraction
    )
