"""Exchange of halos: a slab grows by planes of its neighbours, and gives their gradients back.

Dimension after dimension, each on what the one before has made: so corners come along, and no rank
talks to a diagonal neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from slurm_ext.spatial.geometry.mesh import Mesh
    from slurm_ext.spatial.geometry.window import Edge

Planes = list[torch.Tensor]
"""Of each edge in turn: those of the previous part, those of the next one."""


def grown(x: torch.Tensor, edges: Sequence[Edge], mesh: Mesh, fill: float) -> torch.Tensor:
    """`x` with its neighbours' planes, and `fill` beyond the border."""
    return joined(x, edges, fetch(x, edges, mesh, fill), fill)


def fetch(x: torch.Tensor, edges: Sequence[Edge], mesh: Mesh, fill: float) -> Planes:
    """Send and receive the planes of all edges."""
    planes: Planes = []
    for edge in edges:
        got = depart(x, edge, mesh).arrive()
        planes += got
        x = joined(x, [edge], got, fill)
    return planes


def depart(x: torch.Tensor, edge: Edge, mesh: Mesh) -> Flight:
    """Send the planes of one edge on their way."""
    down = x.narrow(edge.dim, 0, edge.to_prev)
    up = x.narrow(edge.dim, x.shape[edge.dim] - edge.to_next, edge.to_next)
    return swap(mesh, edge, down, up, edge.halo.from_prev, edge.halo.from_next)


def joined(x: torch.Tensor, edges: Sequence[Edge], planes: Planes, fill: float) -> torch.Tensor:
    """`x` between the planes of its neighbours, edge after edge."""
    for number, edge in enumerate(edges):
        if edge.is_empty:
            continue
        halo, dim = edge.halo, edge.dim
        own = x.narrow(dim, 0, x.shape[dim] - halo.crop)
        left = _border(x, dim, halo.pad_left, fill)
        right = _border(x, dim, halo.pad_right, fill)
        low, high = planes[2 * number : 2 * number + 2]
        x = torch.cat([t for t in (left, low, own, high, right) if t.shape[dim]], dim)
    return x


def folded(grad: torch.Tensor, edges: Sequence[Edge], mesh: Mesh) -> torch.Tensor:
    """The gradient of `x`: what the planes of neighbours got goes home and is added there."""
    return landed(folding(grad, edges, mesh))


def folding(
    grad: torch.Tensor, edges: Sequence[Edge], mesh: Mesh
) -> Generator[None, None, torch.Tensor]:
    """As `folded`, handing over whenever planes are on their way: time for other work."""
    for edge in reversed(edges):
        if edge.is_empty:
            continue
        halo, dim = edge.halo, edge.dim
        planes = [halo.pad_left, halo.from_prev, 0, halo.from_next, halo.pad_right]
        planes[2] = grad.shape[dim] - sum(planes)
        _, low, middle, high, _ = torch.split(grad, planes, dim)
        flight = swap(mesh, edge, low, high, edge.to_prev, edge.to_next)
        yield
        middle = _with_zeros(middle, dim, halo.crop)
        below, above = flight.arrive()
        middle.narrow(dim, 0, edge.to_prev).add_(below)
        middle.narrow(dim, middle.shape[dim] - edge.to_next, edge.to_next).add_(above)
        grad = middle
    return grad


def landed(work: Generator[None, None, torch.Tensor]) -> torch.Tensor:
    """The result of `folding`, when all planes are home."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            tensor: torch.Tensor = end.value
            return tensor


@dataclass(frozen=True)
class Flight:
    """Planes on their way; what is sent lives until they have arrived."""

    planes: Planes
    sent: Planes
    requests: Sequence[Any]

    def arrive(self) -> Planes:
        """Wait; the planes of the previous part, and of the next one."""
        for request in self.requests:
            request.wait()
        return self.planes


def swap(
    mesh: Mesh, edge: Edge, down: torch.Tensor, up: torch.Tensor, below: int, above: int
) -> Flight:
    """Send `down` to the previous part and `up` to the next; so many planes come from each."""
    got, kept, calls = [], [], []
    for step, slab, count in ((-1, down, below), (1, up, above)):
        shape = [*slab.shape]
        shape[edge.dim] = count
        got.append(slab.new_empty(shape))
        peer = mesh.neighbour(edge.axis, step)
        if slab.shape[edge.dim]:
            kept.append(slab.contiguous())
            calls.append(dist.P2POp(dist.isend, kept[-1], peer, mesh.group))
        if count:
            calls.append(dist.P2POp(dist.irecv, got[-1], peer, mesh.group))
    return Flight(got, kept, dist.batch_isend_irecv(calls) if calls else ())


def _border(x: torch.Tensor, dim: int, planes: int, fill: float) -> torch.Tensor:
    shape = [*x.shape]
    shape[dim] = planes
    return x.new_full(shape, fill)


def _with_zeros(x: torch.Tensor, dim: int, zeros: int) -> torch.Tensor:
    """A tensor of its own, to be added to, with `zeros` planes at its end."""
    return torch.cat([x, _border(x, dim, zeros, 0.0)], dim) if zeros else x.clone()
