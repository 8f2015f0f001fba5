"""Layers at which it pays to compute while halos travel. Pure.

    at once     forward h1 + h2 + c, backward c + c + h2 + h1      c: a third of the layer's time
    meanwhile   max(h1, c inside) + h2 + c outside + pieces, and c + max(h2, c) + h1

So it saves min(h1, c inside) forward and min(h2, c) backward, and costs two pieces, which are
convolutions of their own, for each dimension that is divided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_ext.spatial.planning.profile import HaloLayer, NetworkProfile

LEAST = 0.05  # of the layer's own time and its halos': less is lost in noise


def saved_s(
    net: NetworkProfile,
    layer: HaloLayer,
    space: tuple[int, ...],
    halos: Sequence[float],
    own_s: float,
) -> float:
    """Seconds that a step gains at a layer; 0.0 where it does not pay.

    `halos`: of each divided dimension, one way; `own_s`: the layer's, forward and backward.
    """
    third = own_s / 3
    inside = _inside(net, layer, space)
    if not halos or inside <= 0.0:
        return 0.0
    gain = min(halos[0], third * inside) + min(halos[-1], third) - 2 * len(halos) * net.piece_s
    return gain if gain > LEAST * (own_s + 2 * sum(halos)) else 0.0


def _inside(net: NetworkProfile, layer: HaloLayer, space: tuple[int, ...]) -> float:
    """The share of a slab that needs no neighbour."""
    share = 1.0
    for axis, parts in enumerate(space):
        if parts > 1:
            slab = net.sizes[axis] / layer.strides[axis] / parts
            share *= max(0.0, 1 - (layer.before[axis] + layer.after[axis]) / slab)
    return share
