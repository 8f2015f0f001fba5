"""A few steps on each of the meshes that the cost model cannot tell apart: the quickest is taken.

One rank's times tell a mesh from one that takes twice as long, not from one that takes a tenth
more: what ranks do to each other's memory and how their messages meet shows when they run. The
exchange of gradients is left out, which all meshes of so many ranks have alike.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from slurm_ext.spatial.convert import parallelise
from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.geometry.mesh import Mesh
from slurm_ext.spatial.measuring.speeds import forward_backward

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from slurm_ext.spatial.planning.cost import MeshCost

NEAR = 2.0  # times the best predicted step: what takes longer is not tried
MEMORY = 1.05  # times that of the best prediction
OVERLAPS = 0.98  # of a step without overlap: what takes no less computes as ever
MOST_MESHES, MOST_STEPS = 6, 4
ROUNDS = 4  # there and back twice, as a processor's speed drifts
BUDGET_S = 20.0  # of predicted steps: a trial must not cost what it may gain


def quickest(
    build: Callable[[tuple[int, ...]], nn.Module], shape: tuple[int, ...], fitting: list[MeshCost]
) -> MeshCost:
    """The mesh of the quickest steps; that of the best prediction where no trial is worth it.

    `shape` is (channels, *sizes), `fitting` the meshes by prediction, the same on all ranks. Its
    layers overlap where a trial of that gains, too: the model does not know what cut kernels cost.
    Collective. A network that the trial cannot divide (the training may trust modules that it does
    not know of) is left to the prediction.
    """
    try:
        tried, steps = finalists(fitting)
        medians = _medians_s(build, shape, tried, steps) if len(tried) > 1 else []
        best = tried[medians.index(min(medians))] if medians else fitting[0]
        plain = replace(best, overlap=())
        pair, steps = finalists([plain, best])
        if not best.overlap or len(pair) < 2:
            return best
        without_s, with_s = _medians_s(build, shape, pair, steps)
    except SpatialError:
        return fitting[0]
    return best if with_s < OVERLAPS * without_s else plain


def _medians_s(
    build: Callable[[tuple[int, ...]], nn.Module],
    shape: tuple[int, ...],
    tried: Sequence[MeshCost],
    steps: int,
) -> list[float]:
    """Median seconds of a step of each, by turns. Raises SpatialError."""
    grids = [Mesh(one.data, one.space) for one in tried]
    seconds: list[list[float]] = [[] for _ in tried]
    for number in [*range(len(tried)), *reversed(range(len(tried)))] * (ROUNDS // 2):
        seconds[number] += _steps_s(build, shape, grids[number], tried[number], steps)
    return _of_slowest_ranks(seconds, grids[0].device)


def finalists(fitting: Sequence[MeshCost]) -> tuple[list[MeshCost], int]:
    """The meshes near the best one in predicted time and memory, and how many steps each gets."""
    best = fitting[0]
    affordable = int(BUDGET_S / ROUNDS / max(best.step_s, 1e-6))
    near = [
        one
        for one in fitting
        if one.samples_per_s * NEAR >= best.samples_per_s
        and one.memory_bytes <= MEMORY * best.memory_bytes
    ]
    tried = near[: min(MOST_MESHES, affordable // 2)]  # a step to warm up, and one that counts
    return tried, min(MOST_STEPS, affordable // max(1, len(tried)) - 1)


def _steps_s(
    build: Callable[[tuple[int, ...]], nn.Module],
    shape: tuple[int, ...],
    mesh: Mesh,
    cost: MeshCost,
    steps: int,
) -> list[float]:
    """Seconds of each step on this rank, after one that warms up."""
    channels, *sizes = shape
    model = parallelise(build(tuple(sizes)), mesh, overlap=cost.overlap)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    slab = [size // parts for size, parts in zip(sizes, cost.space, strict=True)]
    x = torch.randn(cost.batch, channels, *slab, device=device)
    found = []
    for _ in range(1 + steps):
        dist.barrier()
        found.append(forward_backward(model, x).wall_s)
    return found[1:]


def _of_slowest_ranks(seconds: list[list[float]], device: torch.device) -> list[float]:
    """Median seconds of a step of each row, each step as long as its slowest rank's."""
    table = torch.tensor(seconds, dtype=torch.float64, device=device)
    dist.all_reduce(table, dist.ReduceOp.MAX)
    return [median(row) for row in table.tolist()]
