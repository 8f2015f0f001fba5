"""Shares of a training's rate that others on its cores leave it, of many shapes at once. Pure.

Beside them a job is as much slower as the curve says, and at no shape less than where it was seen,
or with workers between: more workers are no way to take cores from a neighbour.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slurm_ext.model.throughput.curve.beside import at_beside
from slurm_ext.model.throughput.curve.costs import Curve
from slurm_ext.model.throughput.curve.point import Point
from slurm_ext.model.throughput.curve.points import at

# Worker counts that are looked at; between them, and beyond, the nearest below stands for fewer.
_FEWER = (*range(1, 17), 20, 24, 28, 32, 40, 48, 56, 64)


class CrowdedShares:
    """Shares of its rate that others leave a training, by its workers and cores."""

    def __init__(self, curve: Curve, count: float, crowds: Sequence[tuple[int, float]]) -> None:
        """`count`: processes of theirs for each core; `crowds`: shapes of runs that met them."""
        self._curve, self._count = curve, count
        many: Any = np
        self._many = replace(curve, arithmetic=many)
        self._counts: Any = np.array([[0.0], [count]])  # alone, and beside them
        self._met = [crowd for crowd in crowds if crowd[0]]
        self._serial = [cores for workers, cores in crowds if not workers]
        self._fewest = 0 if self._serial else min((met[0] for met in self._met), default=0)
        self._shown = 1.0  # the least share of those runs, from the first look on
        self._rows: dict[float, Any] = {}  # by cores: of each of _FEWER

    def __call__(self, workers: int, cores: float) -> float:
        """The share of one shape."""
        if cores not in self._rows:
            self._look_at([cores], _FEWER)
        if not workers:
            return min(self._share(0, cores), self._shown)
        row = self._rows[cores]
        fewer = float(row[bisect_right(_FEWER, workers) - 1])
        return fewer if workers in _FEWER else min(self._share(workers, cores), fewer)

    def of_many(self, workers: Sequence[int], cores: Sequence[float]) -> tuple[Point, Any]:
        """Points on cores of its own, and shares: a row for each of `cores`.

        `workers`: above zero, ascending.
        """
        more = [count for count in workers if count not in _FEWER]
        looked_at = (*_FEWER, *more)
        point, shares = self._look_at(cores, looked_at)
        for place, count in enumerate(more, start=len(_FEWER)):
            fewer = shares[:, bisect_right(_FEWER, count) - 1]
            np.minimum(shares[:, place], fewer, out=shares[:, place])
        columns = np.array([looked_at.index(count) for count in workers])
        rows = len(self._met) + len(looked_at) * np.arange(len(cores))
        return _alone(point, rows[:, None] + columns), shares[:, columns]

    def _look_at(self, cores: Sequence[float], workers: Sequence[int]) -> tuple[Point, Any]:
        """Points of the runs and of these shapes, one after the other, and the shapes' shares."""
        shapes = [*self._met, *((count, own) for own in cores for count in workers)]
        flat: Any = np.array(shapes).T
        point = at_beside(self._many, self._counts, *flat)  # alone and beside others in one pass
        rates: Any = point.samples_per_s
        shares = np.minimum(1.0, rates[1] / rates[0])
        rows = self._bounded(shares[len(self._met) :].reshape(len(cores), -1), shares, cores)
        self._rows |= zip(cores, rows, strict=True)
        return point, rows

    def _bounded(self, rows: Any, shares: Any, cores: Sequence[float]) -> Any:
        """The rows, none above a crowded run's share (the first of all), nor of fewer workers."""
        shown = shares[: len(self._met)].min(initial=1.0)
        if not self._fewest:
            shown = min([shown, *(self._share(0, own) for own in self._serial)])
            serial = [[self._share(0, own)] for own in cores]
            np.minimum(rows, np.array(serial), out=rows)
        self._shown = float(shown)
        np.minimum(rows, shown, out=rows)
        more = rows[:, bisect_left(_FEWER, self._fewest) : len(_FEWER)]
        np.minimum.accumulate(more, axis=1, out=more)
        return rows

    def _share(self, workers: int, cores: float) -> float:
        """The share of one shape by itself."""
        beside = at_beside(self._curve, self._count, workers, cores).samples_per_s
        return min(1.0, beside / at(self._curve, workers, cores).samples_per_s)


def _alone(both: Any, places: Any) -> Point:
    """The points without others on the cores, at these places of the first row."""
    return Point(
        samples_per_s=both.samples_per_s[0, places],
        supply_samples_per_s=both.supply_samples_per_s[0, places],
        accelerator=both.accelerator[0, places],
        wall=both.wall[0, places],
        cpu=both.cpu[0, places],
        storage=0.0,  # which no spread asks for
        contention=_at(both.contention, places),
        on_cpu=both.on_cpu,
    )


def _at(figures: Any, places: Any) -> Any:
    """The figures at these places; one figure stands for all."""
    return figures[0, places] if np.ndim(figures) else figures
