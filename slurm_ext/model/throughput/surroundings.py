"""Counts processes that crowded the cores of a run. Pure; the only place of this rule.

What a run waited for cores is taken off its costs (inversion.py), so that its curve is that of
cores of its own. On a busy node that curve does not hold: the next run will wait as the last ones
did. A run that waited notably for cores, and was slower than its own curve explains, was crowded:
by as many processes for each core as make its curve give the rate that was measured. Its own
workers' waiting for each other is in the curve, and counts nobody. Whose they are is another
question: other jobs' only where its own cannot explain the wait (own_queue.py).
"""

from collections.abc import Sequence
from functools import lru_cache
from math import exp, inf

from slurm_ext.core.records import LoaderRun
from slurm_ext.core.stalls.own_queue import WAITED, waited, waited_for_others
from slurm_ext.model.throughput.curve.beside import at_beside
from slurm_ext.model.throughput.curve.costs import RECEIVE_S, Curve
from slurm_ext.model.throughput.inversion import InvertedRun

LAST = 3  # runs: of those that were crowded the mean, because neighbours come and go
MOST = 64.0  # processes for each core: more than that is no neighbour, but a broken figure
_HALVINGS = 24


def others(runs: Sequence[LoaderRun], inverted: Sequence[InvertedRun]) -> tuple[float, bool]:
    """Processes that crowded each core of the last runs (newest first), and whether others' did.

    The mean of those runs that were crowded; 0.0 and False where none was.
    """
    last = runs[:LAST]
    counts = [met(run, one) for run, one in zip(last, inverted[:LAST], strict=True)]
    theirs = any(n and waited_for_others(run) for n, run in zip(counts, last, strict=True))
    crowds = [count for count in counts if count]
    return sum(crowds) / max(1, len(crowds)), theirs


@lru_cache(maxsize=4096)  # as inverted runs are kept: many jobs rest on one run
def met(run: LoaderRun, one: InvertedRun) -> float:
    """Processes that crowded each core of one run; 0.0 where it did not wait for cores."""
    return others_of(run, _curve_of(run, one)) if waited(run) > WAITED else 0.0


def others_of(run: LoaderRun, curve: Curve) -> float:
    """The same of one run that waited, by its own curve on cores of its own."""

    def rate(count: float) -> float:
        return at_beside(curve, count, run.workers, run.cores).samples_per_s

    if run.samples_per_s >= (1 - WAITED) * rate(0.0):
        return 0.0
    low, high = 0.0, MOST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rate(middle) > run.samples_per_s else (low, middle)
    return low


def _curve_of(run: LoaderRun, one: InvertedRun) -> Curve:
    return Curve(
        accel_samples_per_s=exp(one.accel.log_mean),
        fetch_wall_s=exp(one.wall.log_mean),
        fetch_cpu_s=exp(one.cpu.log_mean),
        main_cpu_s=one.main_cpu_s,
        receive_s=RECEIVE_S if one.receive_s is None else one.receive_s,
        batch_size=run.batch_size,
        sample_bytes=run.sample_bytes or 0.0,
        epoch_samples=run.epoch_samples or inf,
        threads=one.threads,
    )
