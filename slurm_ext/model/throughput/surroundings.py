"""Counts processes that crowded the cores of a run. Pure; the only place of this rule.

What a run waited for cores is taken off its costs (inversion.py), so that its curve is that of
cores of its own. On a busy node that curve does not hold: the next run will wait as the last ones
did. A run that waited notably for cores, and was slower than its own curve explains, was crowded:
by as many processes for each core as make its curve give the rate that was measured. Its own
workers' waiting for each other is in the curve, and counts nobody. Whose they are is another
question: other jobs' only where its own cannot explain the wait (own_queue.py).

Beside them a job is as much slower as the curve says, and at no shape less than where it was seen,
or with workers between: more workers are no way to take cores from a neighbour.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import exp, inf

from slurm_ext.core.records import LoaderRun
from slurm_ext.model.throughput.curve import RECEIVE_S, Curve, at, at_beside
from slurm_ext.model.throughput.inversion import InvertedRun
from slurm_ext.model.throughput.own_queue import computed_s, queued_s, waited_for_others

WAITED = 0.1  # of the time in which its processes could have computed, and of its rate
LAST = 3  # runs: of these the mean, because neighbours come and go
MOST = 64.0  # processes for each core: more than that is no neighbour, but a broken figure
MOST_FEWER = 64  # worker counts that are looked at
_HALVINGS = 24
_MOST_KEPT = 1024  # shapes of one training


def shares(
    curve: Curve, count: float, seen: Sequence[tuple[int, float]]
) -> Callable[[int, float], float]:
    """Return the share of its rate at `(workers, cores)` that others leave a training.

    `count`: processes of theirs for each core; `seen`: shapes of the runs that met them.
    """
    fewest = min((workers for workers, _ in seen), default=0)

    @lru_cache(maxsize=_MOST_KEPT)
    def share(workers: int, cores: float) -> float:
        alone = at(curve, workers, cores).samples_per_s
        return min(1.0, at_beside(curve, count, workers, cores).samples_per_s / alone)

    shown = min((share(*shape) for shape in seen), default=1.0)

    @lru_cache(maxsize=_MOST_KEPT)
    def least(workers: int, cores: float) -> float:
        fewer = min(workers, MOST_FEWER) - 1
        lowest = least(fewer, cores) if fewer >= fewest else shown
        return min(share(workers, cores), lowest)

    return least


def others(runs: Sequence[LoaderRun], inverted: Sequence[InvertedRun]) -> tuple[float, bool]:
    """Processes that crowded each core of the last runs (newest first), and whether others' did.

    0.0 and False where nobody did.
    """
    last = runs[:LAST]
    counts = [met(run, one) for run, one in zip(last, inverted[:LAST], strict=True)]
    theirs = any(n and waited_for_others(run) for n, run in zip(counts, last, strict=True))
    return sum(counts) / max(1, len(last)), theirs


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


def waited(run: LoaderRun) -> float:
    """The share of the time in which its processes could compute that they waited for a core."""
    waited_s = queued_s(run)
    return waited_s / (waited_s + computed_s(run)) if waited_s > 0 else 0.0
