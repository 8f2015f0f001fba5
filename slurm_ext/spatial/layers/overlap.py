"""Convolution of a slab while its halo travels: first what needs no neighbour, then the borders.

    stage   in flight         computed
    0       planes of dim 0   outputs inside along all dimensions
    1       planes of dim 1   borders along dim 0, inside along the others
    2       -                 borders along dim 1

Every rank sends and receives what it would without overlap, in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from slurm_ext.spatial.layers.halo import Planes, depart, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slurm_ext.spatial.geometry.mesh import Mesh
    from slurm_ext.spatial.geometry.pieces import Pieces
    from slurm_ext.spatial.geometry.window import Edge

    Convolve = Callable[[torch.Tensor], torch.Tensor]


def overlapped(
    x: torch.Tensor, edges: Sequence[Edge], parts: Sequence[Pieces], mesh: Mesh, convolve: Convolve
) -> tuple[torch.Tensor, Planes]:
    """The convolution of `x` with its halo, and the planes that came; `parts`: of each edge."""
    planes: Planes = []
    y = x
    for number, edge in enumerate(edges):
        flight = depart(x, edge, mesh)
        rest = _inside(x, edges[number:], parts[number:])
        y = _bordered(y, rest, edges, parts, number - 1, convolve) if number else convolve(rest)
        got = flight.arrive()
        planes += got
        x = joined(x, [edge], got, 0.0)
    return _bordered(y, x, edges, parts, len(edges) - 1, convolve), planes


def _inside(x: torch.Tensor, edges: Sequence[Edge], parts: Sequence[Pieces]) -> torch.Tensor:
    """The planes that outputs inside along all `edges` read."""
    for edge, part in zip(edges, parts, strict=True):
        x = x.narrow(edge.dim, part.own.start, part.own.stop - part.own.start)
    return x


def _bordered(
    y: torch.Tensor,
    x: torch.Tensor,
    edges: Sequence[Edge],
    parts: Sequence[Pieces],
    number: int,
    convolve: Convolve,
) -> torch.Tensor:
    """`y` between the outputs at the two ends of `x` along one edge."""
    dim, part, rows = edges[number].dim, parts[number], [y]
    if part.low:
        rows.insert(0, convolve(x.narrow(dim, 0, part.low_planes)))
    if part.high:
        begin = x.shape[dim] - part.high_planes
        rows.append(convolve(x.narrow(dim, begin, part.high_planes)))
    return torch.cat(rows, dim)
