"""Corrects the curve in a shape by what runs of the script measured there. Pure.

The curve is fitted to all runs, and misses each of them by a few per cent. A shape in which the
very script has run without a crowd is told as it ran, the more so the more runs there are: that
took the median error of such shapes from 4.0 to 2.2 % (148 runs of random trainings,
contrib/bench/promises). What the curve misses at one shape says nothing of its neighbours, so that
these stay as they are.
"""

from collections.abc import Sequence
from math import exp, log

from slurm_ext.core.records import LoaderRun
from slurm_ext.core.stalls.own_queue import crowded
from slurm_ext.model.throughput.inversion import InvertedRun
from slurm_ext.model.throughput.surroundings import met

Measured = tuple[tuple[int, float, float, int], ...]
"""Workers, cores, mean log of samples/s, and how many runs had them."""
CURVE_COUNTS = 0.3  # as so many runs: as found best there


def measured(runs: Sequence[LoaderRun], inverted: Sequence[InvertedRun]) -> Measured:
    """Rates of those runs that no process of others crowded, by their shapes."""
    logs: dict[tuple[int, float], list[float]] = {}
    for run, one in zip(runs, inverted, strict=True):
        if not met(run, one) and not crowded(run):
            logs.setdefault(shape_key(run.workers, run.cores), []).append(log(run.samples_per_s))
    return tuple((*shape, sum(some) / len(some), len(some)) for shape, some in logs.items())


def shape_key(workers: int, cores: float) -> tuple[int, float]:
    """Workers and cores of one process, which come by several divisions."""
    return workers, round(cores, 3)


def was_measured(known: Measured, workers: int, cores: float) -> bool:
    """True if a run had this shape."""
    return any(one[:2] == shape_key(workers, cores) for one in known)


def correction(known: Measured, workers: int, cores: float, by_curve: float) -> float:
    """Factor on the curve's rate at this shape; 1 where none of the runs had it."""
    for at_workers, at_cores, mean_log, count in known:
        if (at_workers, at_cores) == shape_key(workers, cores):
            return exp((mean_log - log(by_curve)) * count / (count + CURVE_COUNTS))
    return 1.0
