"""The best mesh of so many ranks, and the fewest ranks that a larger volume needs. Pure.

There are a few hundred ways to write a number of ranks as data x space: all are looked at.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from slurm_ext.spatial.planning.cost import MeshCost, cost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_ext.spatial.planning.profile import ClusterProfile, HaloLayer, NetworkProfile

MEMORY_SHARE = 0.92  # of a rank's memory that a step may fill
MOST_RANKS = 4096


def meshes(
    net: NetworkProfile, cluster: ClusterProfile, ranks: int, samples: int | None = None
) -> list[MeshCost]:
    """Every mesh that divides the volume and fits into memory, the quickest first.

    `samples` is the global batch (None: one sample of each group); ties go to more groups of data,
    then to early dimensions.
    """
    every = [
        cost(net, cluster, data, space, (samples or data) // data)
        for data, space in factorisations(ranks, len(net.sizes))
        if (samples or data) % data == 0 and divides(net, space)
    ]
    fit = [cost for cost in every if cost.memory_bytes <= MEMORY_SHARE * cluster.memory_bytes]
    return sorted(fit, key=lambda cost: (-cost.samples_per_s, -cost.data, [-n for n in cost.space]))


def fewest_ranks(net: NetworkProfile, cluster: ClusterProfile) -> MeshCost | None:
    """The smallest space that holds one sample; None if up to 4096 ranks do not."""
    for ranks in range(1, MOST_RANKS + 1):
        costs = [cost for cost in meshes(net, cluster, ranks, 1) if cost.data == 1]
        if costs:
            return costs[0]
    return None


def divides(net: NetworkProfile, space: tuple[int, ...]) -> bool:
    """True if all slabs are equal, begin at multiples of the strides and hold every halo."""
    rows = zip(net.sizes, space, net.strides, strict=True)
    if any(size % (parts * stride) for size, parts, stride in rows if parts > 1):
        return False
    return all(_holds(net, layer, space) for layer in net.layers)


def factorisations(ranks: int, space: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Every way to write `ranks` as data x space."""
    for row in _products(ranks, space + 1):
        yield row[0], row[1:]


def _products(number: int, factors: int) -> Iterator[tuple[int, ...]]:
    if factors == 1:
        yield (number,)
        return
    for first in range(1, number + 1):
        if number % first == 0:
            yield from ((first, *rest) for rest in _products(number // first, factors - 1))


def _holds(net: NetworkProfile, layer: HaloLayer, space: tuple[int, ...]) -> bool:
    return all(
        parts == 1 or size // stride // parts >= max(before, after)
        for size, stride, parts, before, after in zip(
            net.sizes, layer.strides, space, layer.before, layer.after, strict=True
        )
    )


def volume_of(text: str) -> tuple[int, ...]:
    """Sizes from "64x64x32"; raises ValueError."""
    parts = text.lower().split("x")
    if not 1 <= len(parts) <= 3 or not all(
        p.isascii() and p.isdecimal() and 0 < int(p) < 1 << 20 for p in parts
    ):
        raise ValueError(f"{text!r} is not 1 to 3 sizes such as 64x64x64")
    sizes = tuple(map(int, parts))
    if prod(sizes) > 1 << 45:
        raise ValueError(f"{text} is more voxels than any machine holds")
    return sizes
