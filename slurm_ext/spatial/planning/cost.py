"""Memory and time of a step on one mesh, from a profile.

Memory: weights and their states on every rank, activations divided by the parts, halos beside them.
Time: compute by voxels and a fixed part, two exchanges of each halo (there in the forward, back in
the backward pass) less what computing meanwhile hides, two small collectives of each norm, one ring
of gradients, and reading the slab.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, prod
from typing import TYPE_CHECKING

from slurm_ext.spatial.planning.overlap import saved_s

if TYPE_CHECKING:
    from slurm_ext.spatial.planning.profile import ClusterProfile, HaloLayer, NetworkProfile

STATISTIC_BYTES = 8  # each norm sends counts, means and squares in double precision


@dataclass(frozen=True)
class MeshCost:
    """A mesh with its predicted memory and time."""

    data: int
    space: tuple[int, ...]
    batch: int  # samples of a step on each group
    memory_bytes: float  # of a rank
    compute_s: float
    halo_s: float
    norm_s: float
    gradient_s: float
    input_s: float
    overlap: tuple[str, ...] = ()  # layers that compute while their halo travels

    @property
    def step_s(self) -> float:
        """Seconds of a step."""
        return self.compute_s + self.halo_s + self.norm_s + self.gradient_s + self.input_s

    @property
    def samples_per_s(self) -> float:
        """Samples of all groups."""
        return self.data * self.batch / self.step_s


def cost(
    net: NetworkProfile, cluster: ClusterProfile, data: int, space: tuple[int, ...], batch: int
) -> MeshCost:
    """The prediction for `data` groups of `batch` samples, each divided by `space`."""
    parts, world = prod(space), data * prod(space)
    halo = sum(
        _face_bytes(net, layer, space, axis) for layer in net.layers for axis in _axes(layer, space)
    )
    kept = net.activation_bytes / parts + halo
    between = world > cluster.ranks_per_node
    link = cluster.between_bytes_s if between else cluster.inside_bytes_s
    ring = 2 * (world - 1) / world * net.parameter_bytes / link
    rounds = ceil(log2(parts)) if parts > 1 else 0
    exposed, hiding = _halos(net, cluster, space, batch)
    return MeshCost(
        data=data,
        space=space,
        batch=batch,
        memory_bytes=net.parameter_bytes + net.state_bytes + batch * kept,
        compute_s=net.fixed_s + batch * _voxel_s(net, space) * net.voxels / parts,
        halo_s=exposed,
        norm_s=sum(_norm_s(cluster, channels, parts, rounds) for channels in net.norm_channels),
        gradient_s=ring + (cluster.latency_s * 2 * ceil(log2(world)) if world > 1 else 0.0),
        input_s=batch * data * net.input_bytes / cluster.storage_bytes_s,
        overlap=hiding,
    )


def _voxel_s(net: NetworkProfile, space: tuple[int, ...]) -> float:
    """Seconds of each voxel, on a mesh of such parts."""
    if prod(space) == 1:
        return net.whole_voxel_s or net.voxel_s
    costs = zip(space, net.axis_costs or (1.0,) * len(space), strict=True)
    return net.voxel_s * prod(cost for parts, cost in costs if parts > 1)


def _halos(
    net: NetworkProfile, cluster: ClusterProfile, space: tuple[int, ...], batch: int
) -> tuple[float, tuple[str, ...]]:
    """Seconds that a step waits for halos, and the layers that hide theirs."""
    voxels_s = batch * _voxel_s(net, space) * net.voxels / prod(space)
    total, hiding = 0.0, []
    for layer in net.layers:
        axes = _axes(layer, space)
        one_way = [_halo_s(net, cluster, layer, space, axis, batch) for axis in axes]
        gain = saved_s(net, layer, space, one_way, layer.share * voxels_s)
        total += 2 * sum(one_way) - gain
        if gain and layer.name:
            hiding.append(layer.name)
    return total, tuple(dict.fromkeys(hiding))


def _axes(layer: HaloLayer, space: tuple[int, ...]) -> list[int]:
    """The dimensions along which a layer exchanges planes."""
    rows = enumerate(zip(space, layer.before, layer.after, strict=True))
    return [axis for axis, (parts, before, after) in rows if parts > 1 and before + after]


def _face_bytes(net: NetworkProfile, layer: HaloLayer, space: tuple[int, ...], axis: int) -> float:
    """Bytes that a rank inside receives along `axis`, with the corners of dimensions before."""
    planes = float(layer.before[axis] + layer.after[axis])
    for other, (size, stride, parts) in enumerate(
        zip(net.sizes, layer.strides, space, strict=True)
    ):
        if other != axis:
            grown = layer.before[other] + layer.after[other] if other < axis and parts > 1 else 0
            planes *= size / stride / parts + grown
    return planes * layer.voxel_bytes


def _halo_s(
    net: NetworkProfile,
    cluster: ClusterProfile,
    layer: HaloLayer,
    space: tuple[int, ...],
    axis: int,
    batch: int,
) -> float:
    """One way; neighbours along an axis are as many ranks apart as later axes have parts."""
    crosses = prod(space[axis:]) > cluster.ranks_per_node
    link = cluster.between_bytes_s if crosses else cluster.inside_bytes_s
    return cluster.latency_s + batch * _face_bytes(net, layer, space, axis) / link


def _norm_s(cluster: ClusterProfile, channels: int, parts: int, rounds: int) -> float:
    crosses = parts > cluster.ranks_per_node
    link = cluster.between_bytes_s if crosses else cluster.inside_bytes_s
    return rounds * 2 * (cluster.latency_s + 3 * channels * STATISTIC_BYTES / link)
