"""The rooms of a trace's jobs on a cluster."""

from slurm_ext.simulate.planning.levels import Shape
from slurm_ext.simulate.planning.rooms import Rooms
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.trace.columns import Column


def equal_rooms(cluster: Cluster, gpus: Column, pool_of: Column) -> Rooms:
    """The rooms on nodes that are equal; each pool counts its own."""
    per_node = cluster.gpus_per_node
    shapes = {int(count): shape_on(int(count), per_node) for count in set(gpus.tolist())}
    everywhere = [(1 << count) - 1 for count in cluster.pools()]
    nodes = [everywhere[pool] for pool in pool_of.tolist()]
    return Rooms(shape=[shapes[count] for count in gpus.tolist()], nodes=nodes, partition=nodes)


def shape_on(gpus: int, size: int) -> Shape:
    """The room of a job on nodes with so many GPUs."""
    whole, rest = divmod(gpus, size)
    return Shape(whole, size, rest)
