"""The rooms of a trace's jobs on a cluster."""

import numpy as np

from slurm_ext.simulate.planning.levels import shape_on
from slurm_ext.simulate.planning.rooms import Rooms
from slurm_ext.simulate.queue.cluster import Cluster, rooms_of
from slurm_ext.simulate.trace.columns import Column, Trace


def rooms_on(cluster: Cluster, trace: Trace, order: Column) -> Rooms:
    """The rooms of all jobs, in an order; each of them can run."""
    if cluster.layout is not None:
        rooms = [room for room in rooms_of(trace, cluster.layout) if room is not None]
        shapes, nodes, partitions = zip(*(rooms[place] for place in order), strict=True)
        return Rooms(shape=shapes, nodes=nodes, partition=partitions)
    counts = trace.gpus[order].tolist()
    sizes = {count: shape_on(count, cluster.gpus_per_node) for count in np.unique(counts).tolist()}
    everywhere = [(1 << count) - 1 for count in cluster.pools()]
    whole = [everywhere[pool] for pool in cluster.pool_of(trace)[order].tolist()]
    return Rooms(shape=[sizes[count] for count in counts], nodes=whole, partition=whole)


def sizes_of(cluster: Cluster) -> list[list[int]]:
    """GPUs of each pool's nodes."""
    if cluster.layout is not None:
        return [list(cluster.layout.sizes)]
    return [[cluster.gpus_per_node] * nodes for nodes in cluster.pools()]


def partitions_of(cluster: Cluster) -> list[dict[str, int]]:
    """The nodes of each pool's partitions as sets; an empty name: all of the cluster."""
    if cluster.layout is not None:
        named = {name: partition.nodes for name, partition in cluster.layout.partitions.items()}
        return [{"": (1 << len(cluster.layout.sizes)) - 1, **named}]
    return [
        {name: (1 << count) - 1} for name, count in (cluster.vcs or {"": cluster.nodes}).items()
    ]
