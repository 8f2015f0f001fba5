"""Goodput of a training at every size: samples a second times what a sample is still worth.

    gain(M) = (variance + square) / (variance * M0/M + square)   of M samples against M0 (AdaScale)
    goodput = gain(M) / ((accumulated + 1) * compute_s + sync_s)   iterations at M0 a second
    M       = GPUs * samples a GPU * (accumulated + 1)

square and variance are the gradient's squared norm and its variance at M0 samples, as the job
measured them last (the gradient noise scale). Pollux (Qiao et al., OSDI '21), with the speed of
goodput_speed.py. On one GPU a batch above M0 is accumulated: one gradient alone has no variance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slurm_ext.model.arrays import Array

LOCALS = 16  # batches of a GPU that are tried, in equal ratios
PARTS = (2, 3, 4, 6, 8, 12, 16, 24, 32)  # micro-steps that are tried with the largest ones


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Batches that the job's owner allows, in samples: in all, and of a GPU."""

    initial: int
    most: int
    local_least: int
    local_most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientNoise:
    """Noise of the job's gradients at M0 samples; with square 0 no batch is too large."""

    square: float
    variance: float

    def gain(self, scale: Array) -> Array:
        """Iterations at M0 that one at scale*M0 is worth: between 1 and scale."""
        both = self.variance + self.square
        gain: Array = both / (self.variance / scale + self.square)
        return gain


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class BestBatches:
    """The best batch at each size: columns of one length. No batch fits: goodput 0."""

    goodput: Array  # iterations at M0 a second
    local: NDArray[np.int64]
    accumulated: NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Configs:
    """Configs that are tried for a list of sizes."""

    size: NDArray[np.int64]  # index into the list
    columns: Array  # GPUs, nodes, GPUs of the fullest, samples a GPU, micro-steps


@dataclass(frozen=True, eq=False, slots=True)
class IterationTimes:
    """Seconds of an iteration at every config that may be tried; stands until more is measured."""

    tried: Configs
    step_s: Array
    scale: Array  # global batch over M0
    sizes: int

    def best(self, noise: GradientNoise) -> BestBatches:
        """The best batch of each size."""
        goodput = noise.gain(self.scale) / self.step_s
        order = np.lexsort((goodput, self.tried.size))  # the best of a size is its last
        last = np.flatnonzero(np.diff(self.tried.size[order], append=self.sizes))
        best = order[last]
        at = self.tried.size[best]
        out = BestBatches(
            goodput=np.zeros(self.sizes),
            local=np.zeros(self.sizes, dtype=np.int64),
            accumulated=np.zeros(self.sizes, dtype=np.int64),
        )
        out.goodput[at] = goodput[best]
        out.local[at] = self.tried.columns[best, 3]
        out.accumulated[at] = self.tried.columns[best, 4] - 1
        return out


class StepTimePredictor(Protocol):
    """Predictor of a step's seconds: goodput_speed.StepTimeModel, or a table in a replay."""

    def steps(self, gpus: Array, nodes: Array, most: Array, local: Array) -> tuple[Array, Array]:
        """Computing and synchronising."""


def iteration_times(
    speed: StepTimePredictor, limits: BatchLimits, tried: Configs, sizes: int
) -> IterationTimes:
    """Every config's iteration; `sizes` is the length of their list."""
    gpus, nodes, most, local, parts = tried.columns.T
    compute_s, sync_s = speed.steps(gpus, nodes, most, local)
    scale = gpus * local * parts / limits.initial
    return IterationTimes(tried, parts * compute_s + sync_s, scale, sizes)


@cache
def configs(limits: BatchLimits, sizes: tuple[int, ...], per_node: int) -> Configs:
    """All that the limits allow, each size on as few nodes as it needs."""
    steps = np.geomspace(limits.local_least, limits.local_most, LOCALS)
    locals_ = sorted({ceil(step - 1e-8) for step in steps})
    largest = [(local, parts) for local in locals_[-3:] for parts in PARTS]
    rows = []
    for gpus in sizes:
        exact = max(limits.local_least, ceil(limits.initial / gpus))
        choices = {(local, parts) for local in (*locals_, exact) for parts in (1, 2 - (gpus > 1))}
        rows += [
            (gpus, *rest) for rest in sorted(choices | {*largest}) if _allowed(limits, gpus, *rest)
        ]
    return config_table(rows, sizes, per_node)


def _allowed(limits: BatchLimits, gpus: int, local: int, parts: int) -> bool:
    batch = gpus * local * parts
    lone = gpus == 1 and parts == 1 and batch > limits.initial
    within = limits.initial <= batch <= limits.most and local <= limits.local_most
    return within and not lone


def config_table(
    rows: Sequence[tuple[int, int, int]], sizes: tuple[int, ...], per_node: int
) -> Configs:
    """These (GPUs, samples a GPU, micro-steps)."""
    place = {gpus: at for at, gpus in enumerate(sizes)}
    table = [(k, -(-k // per_node), min(k, per_node), local, parts) for k, local, parts in rows]
    columns = np.array(table, dtype=np.float64).reshape(len(table), 5)
    return Configs(np.array([place[k] for k, _, _ in rows], dtype=np.int64), columns)
