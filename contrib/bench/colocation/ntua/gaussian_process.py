"""Speeds beside neighbours as a Gaussian process of the neighbours' kinds and the counters.

    log speed = a random walk over the number of each kind, from 0 without neighbours (shared, and
                the campaign's own; nearer request rates are more alike)
              + a random walk over all neighbours together
              + lines in the counters' logs over the campaign's quiet ones + a smooth function

Walks and lines extrapolate and kinds add up in logs, where trees stop at the outermost leaf; the
standard deviation grows with the distance to known runs. Quiet runs have speed 1 by definition, so
those of the predicted campaigns are known too. The numbers of `Shape` were chosen by counts,
campaigns and families left out of the development table (Rasmussen and Williams 2006, 5.4.2: a
whole group is left out in closed form).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrib.bench.colocation.ntua.tables import CORES, NAMES, Runs, relative
from contrib.bench.common.arrays import Array

SYSTEM = (
    "Sys_IPC",
    "Sys_L2MISS",
    "Sys_L3MISS",
    "Sys_READ",
    "Sys_WRITE",
    "SysCore_C0respct",
    "Sys_PhysIPC",
)
LEAST_RATIO, LEAST_SPREAD, LEAST_SPEED = 0.02, 0.05, 0.03
QUIET_VAR = 1e-3


@dataclass(frozen=True, slots=True)
class Group:
    """Counters that move together: variance of their line, length of the smooth function."""

    columns: tuple[int, ...]
    line: float
    length: float


def _system() -> tuple[int, ...]:
    return tuple(NAMES.index(f"mean_{name}") for name in SYSTEM)


def _cores(counter: str) -> tuple[int, ...]:
    return tuple(NAMES.index(f"mean_Core{core}_{counter}") for core in range(CORES))


@dataclass(frozen=True, slots=True)
class Shape:
    """Variances of log speed, and lengths; of a walk: at two neighbours."""

    kind: float = 0.035
    campaign: float = 0.007
    together: float = 0.13
    smooth: float = 0.007
    family: float = 0.38  # of the smooth function, within one family of campaigns
    rate_length: float = 1.3  # of the log of the request rate
    noise: float = 0.08
    groups: tuple[Group, ...] = (
        Group(_system(), line=1.4, length=1.0),
        Group(_cores("IPC"), line=0.03, length=0.44),
        Group(_cores("L3MISS"), line=0.024, length=1.0),
    )


SHAPE = Shape()


@dataclass(frozen=True, slots=True)
class ProcessRows:
    """Runs, how their counters moved, and whether their neighbours are named."""

    runs: Runs
    moved: Array
    named: bool

    def covariance(self, other: "ProcessRows") -> Array:
        """Of log speeds, noise apart: rows of this one x rows of the other one."""
        covariance = self._counters(other)
        return covariance + self._beside(other) if self.named else covariance

    def _beside(self, other: "ProcessRows") -> Array:
        rows, columns = self.runs, other.runs
        apart = np.log(rows.context[:, :1]) - np.log(columns.context[:, 0])
        near = np.exp(-0.5 * (apart / SHAPE.rate_length) ** 2)
        kinds = np.minimum(rows.beside[:, None], columns.beside[None]).sum(axis=2) / 2
        together = np.minimum(rows.beside.sum(axis=1)[:, None], columns.beside.sum(axis=1)) / 2
        own = SHAPE.kind + SHAPE.campaign * _same(rows.campaign, columns.campaign)
        both = SHAPE.together * (1 + _same(rows.family, columns.family)) / 2
        return np.asarray(near * (own * kinds + both * together))

    def _counters(self, other: "ProcessRows") -> Array:
        lines = np.zeros((len(self.moved), len(other.moved)))
        apart = np.zeros_like(lines)
        for group in SHAPE.groups:
            rows, columns = (
                moved[:, group.columns] / np.sqrt(len(group.columns))
                for moved in (self.moved, other.moved)
            )
            lines += group.line * rows @ columns.T
            squares = (
                (rows**2).sum(axis=1)[:, None] + (columns**2).sum(axis=1) - 2 * rows @ columns.T
            )
            apart += np.maximum(squares, 0.0) / group.length**2
        alike = SHAPE.smooth + SHAPE.family * _same(self.runs.family, other.runs.family)
        return np.asarray(lines + alike * np.exp(-0.5 * apart))


def process(train: Runs, queries: Runs, *, named: bool = True) -> tuple[Array, Array]:
    """Log speeds of `queries` and their standard deviations, noise included.

    `named`: who is beside counts, and has to be known for every query.
    """
    usable = np.asarray(np.isfinite(train.beside).all(axis=1) | (not named), bool)
    learn = _joined(train.take(usable), queries.take(queries.alone))
    logs = [
        np.log(np.maximum(relative(part, (train, queries)), LEAST_RATIO))
        for part in (learn, queries)
    ]
    part, other = (
        ProcessRows(*each, named) for each in zip((learn, queries), _scaled(*logs), strict=True)
    )
    return _answers(part, other)


def _answers(learn: ProcessRows, queries: ProcessRows) -> tuple[Array, Array]:
    noise = np.where(learn.runs.alone, QUIET_VAR, SHAPE.noise)
    root = np.linalg.cholesky(learn.covariance(learn) + np.diag(noise))
    across = np.linalg.solve(root, learn.covariance(queries))
    logs = np.linalg.solve(root, np.log(np.maximum(learn.runs.speed, LEAST_SPEED)))
    left = np.diag(queries.covariance(queries)) - (across**2).sum(axis=0)
    return across.T @ logs, np.sqrt(np.maximum(left, 0.0) + SHAPE.noise)


def _scaled(learn: Array, queries: Array) -> tuple[Array, Array]:
    """In spreads of what is learned from; what was not measured did not move."""
    spread = np.maximum(np.nan_to_num(learn).std(axis=0), LEAST_SPREAD)
    return np.nan_to_num(learn) / spread, np.nan_to_num(queries) / spread


def _joined(one: Runs, other: Runs) -> Runs:
    columns = ((getattr(each, name) for each in (one, other)) for name in Runs.__slots__)
    return Runs(*(np.concatenate(list(column)) for column in columns))


def _same(one: NDArray[Any], other: NDArray[Any]) -> Array:
    return np.asarray(one[:, None] == other[None], dtype=np.float64)
