"""Times of a network on small volumes: as torch convolves them, and as slabs do.

Slabs may have other kernels than volumes, and a slab whose planes do not lie together in memory
takes longer to put together and to convolve.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from slurm_ext.spatial.layers.convolution import Convolution, undivided

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Volume = tuple[nn.Module, torch.Tensor]

TURNS = 5


class Speeds(NamedTuple):
    """Seconds of a step: a fixed part, and those of each voxel."""

    fixed_s: float
    voxel_s: float  # of a slab
    whole_voxel_s: float  # of a volume that is not divided
    axis_costs: tuple[float, ...]  # of a slab cut along each dimension, over one without a border


def measured_speeds(pairs: Sequence[Volume]) -> Speeds:
    """Speeds from networks on a smaller and a larger volume, which get what they took there."""
    smaller, larger = pairs
    whole = [_quickest(*pair).wall_s for pair in pairs]
    first = _of_slabs(smaller, ()).wall_s
    uncut, costs = _by_turns(larger)
    small, large = (x[0, 0].numel() for _, x in pairs)
    slopes = [max(0.0, (b - a) / (large - small)) for a, b in (whole, (first, uncut))]
    starts = [took - slope * small for took, slope in zip((whole[0], first), slopes, strict=True)]
    fixed = max(0.0, min(*starts, whole[1], uncut))
    slab_s, whole_s = ((took - fixed) / large for took in (uncut, whole[1]))
    return Speeds(fixed, slab_s, whole_s, tuple(max(1.0, cost) for cost in costs))


def _by_turns(pair: Volume) -> tuple[float, list[float]]:
    """The quickest pass of an uncut slab, and what cuts cost.

    They run by turns, as a core's speed drifts, and where they run on CPUs, by their time there, as
    others want the cores.
    """
    ways: list[tuple[int, ...]] = [(), *((axis,) for axis in range(pair[1].dim() - 2))]
    rows = [[_of_slabs(pair, axes) for axes in ways] for _ in range(TURNS)]
    quickest = min(row[0].wall_s for row in rows)
    ratios = [[cut.own_s / row[0].own_s for cut in row[1:]] for row in rows]
    return quickest, [median(column) for column in zip(*ratios, strict=True)]


def _of_slabs(pair: Volume, axes: tuple[int, ...]) -> PassTime:
    with as_slabs(pair[0], axes):
        return _quickest(*pair)


@contextmanager
def as_slabs(model: nn.Module, axes: tuple[int, ...] = ()) -> Iterator[None]:
    """Within it, `model` convolves as slabs do that are cut along `axes`."""
    layers = [module for module in model.modules() if isinstance(module, Convolution)]
    for layer in layers:
        layer.forward = partial(undivided, layer, axes=axes)  # type: ignore[method-assign]  # as `run` does
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


class PassTime(NamedTuple):
    """Seconds of a forward and backward pass."""

    wall_s: float
    own_s: float  # of the processor's, on CPUs


def _quickest(model: nn.Module, x: torch.Tensor) -> PassTime:
    """The quicker of two passes: the first one may warm up."""
    passes = [forward_backward(model, x) for _ in range(2)]
    model.zero_grad()
    return min(passes)


def forward_backward(model: nn.Module, x: torch.Tensor) -> PassTime:
    """Run a pass, with the mean square of the output as loss, and tell what it took."""
    wall, own = time.perf_counter(), time.process_time()
    torch.autograd.backward(model(x).float().square().mean())
    if x.device.type == "cuda":
        torch.cuda.synchronize()
    took = time.perf_counter() - wall
    return PassTime(took, took if x.device.type == "cuda" else time.process_time() - own)
