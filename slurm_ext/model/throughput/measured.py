"""Corrects the curve in a shape by what runs of the script measured there. Pure.

The curve is fitted to all runs, and misses each of them by a few per cent. A shape in which the
very script has run without a crowd is told as it ran, the more so the more runs there are and the
less the curve is sure of itself; its interval is that of both. What the curve misses at one shape
says nothing of its neighbours, so that these stay as they are.
"""

from collections.abc import Sequence
from math import hypot, log, sqrt

from slurm_ext.core.records import LoaderRun
from slurm_ext.core.stalls.own_queue import crowded
from slurm_ext.model.throughput.inversion import InvertedRun, LogNormal
from slurm_ext.model.throughput.surroundings import met

Measured = tuple[tuple[int, float, float, int], ...]
"""Workers, cores, mean log of samples/s, and how many runs had them."""
# Log sd of a run in its shape, and what else may become of the next one after a single run, after
# two, three ... (found as best for contrib/bench/promises.replay: intervals of 149 such runs that
# are 1.15 times as high as low hold 93 % of them, where the curve's alone are 1.23).
AGAIN_SD, UNSEEN_SD = 0.03, 0.04


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


def with_measured(known: Measured, workers: int, cores: float, curve: LogNormal) -> LogNormal:
    """The log of the rate at this shape by the curve and by runs; the curve's where none had it."""
    for at_workers, at_cores, mean_log, count in known:
        if (at_workers, at_cores) == shape_key(workers, cores):
            sd = AGAIN_SD / sqrt(count)
            runs = curve.log_sd**2 / (curve.log_sd**2 + sd**2)
            mean = curve.log_mean + runs * (mean_log - curve.log_mean)
            return LogNormal(mean, hypot(sd * sqrt(runs), UNSEEN_SD / count))
    return curve
