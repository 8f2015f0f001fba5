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

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import exp, inf
from typing import Any

from slurm_ext.core.records import LoaderRun
from slurm_ext.core.stalls.own_queue import WAITED, waited, waited_for_others
from slurm_ext.model.throughput.curve.beside import at_beside
from slurm_ext.model.throughput.curve.costs import RECEIVE_S, Curve
from slurm_ext.model.throughput.inversion import InvertedRun

LAST = 3  # runs: of those that were crowded the mean, because neighbours come and go
MOST = 64.0  # processes for each core: more than that is no neighbour, but a broken figure
# Worker counts that are looked at; between them, and beyond, the nearest below stands for fewer.
_FEWER = (*range(17), 20, 24, 28, 32, 40, 48, 56, 64)
_PLACES = {count: place for place, count in enumerate(_FEWER)}
_HALVINGS = 24


class CrowdedShares:
    """Shares of its rate that others leave a training, by its workers and cores."""

    def __init__(self, curve: Curve, count: float, crowds: Sequence[tuple[int, float]]) -> None:
        """`count`: processes of theirs for each core; `crowds`: shapes of runs that met them."""
        import numpy as np  # most jobs' runs were not crowded, and need none

        many: Any = np
        self._curve = replace(curve, arithmetic=many)
        self._counts = np.array([0.0, count])  # alone, and beside them
        self._fewest = min((workers for workers, _ in crowds), default=0)
        self._crowds = np.array(crowds).reshape(-1, 2).T
        self._rows: dict[float, Any] = {}  # by cores: of each of _FEWER

    def __call__(self, workers: int, cores: float) -> float:
        """The share of one shape."""
        if cores in self._rows and workers in _PLACES:
            return float(self._rows[cores][_PLACES[workers]])
        import numpy as np

        return float(self.of_many(np.array([workers]), np.array([[cores]]))[0, 0])

    def of_many(self, workers: Any, cores: Any) -> Any:
        """The same of arrays: a row of `workers` and a column of `cores`."""
        import numpy as np

        asked_cores = cores[:, 0].tolist()
        unseen = [wanted for wanted in dict.fromkeys(asked_cores) if wanted not in self._rows]
        if unseen:
            self._look_at(unseen)
        rows = np.array([self._rows[count] for count in asked_cores])
        below = np.searchsorted(_FEWER, workers, side="right") - 1
        fewer = rows[:, below]
        if (np.array(_FEWER)[below] == workers).all():
            return fewer
        return np.minimum(self._share(workers, cores), fewer)

    def _look_at(self, cores: Sequence[float]) -> None:
        """Shares of each of _FEWER, none above that of a crowded run, nor of fewer workers."""
        import numpy as np

        workers, shapes = np.tile(_FEWER, len(cores)), np.repeat(cores, len(_FEWER))
        met_workers, met_cores = self._crowds
        shares = self._shares_of(np.append(met_workers, workers), np.append(met_cores, shapes))
        shown = shares[: len(met_cores)].min(initial=1.0)
        rows = np.minimum(shares[len(met_cores) :], shown).reshape(len(cores), -1)
        more = rows[:, np.searchsorted(_FEWER, self._fewest) :]
        np.minimum.accumulate(more, axis=1, out=more)
        self._rows |= zip(cores, rows, strict=True)

    def _shares_of(self, workers: Any, cores: Any) -> Any:
        """The share of each shape by itself; none and some workers are two formulas."""
        import numpy as np

        serial, shares = workers == 0, np.empty(len(cores))
        shares[serial] = self._share(0, cores[serial])
        shares[~serial] = self._share(workers[~serial], cores[~serial])
        return shares

    def _share(self, workers: Any, cores: Any) -> Any:
        """The rate beside others over that beside nobody, both in one pass."""
        counts: Any = self._counts.reshape(-1, *[1] * cores.ndim)
        rates: Any = at_beside(self._curve, counts, workers, cores).samples_per_s
        alone, beside = rates
        return self._curve.arithmetic.minimum(1.0, beside / alone)


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
