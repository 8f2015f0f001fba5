"""Nodes that differ in GPUs and model, and the partitions that they are in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from slurm_ext.simulate.planning.levels import Levels, Need, members, set_of, shape_on

Room = tuple[Need, int, int]  # what a job needs, the nodes it may be on, all of its partition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNodes:
    """One partition: its nodes as a set, and the limits of its jobs."""

    nodes: int
    most_s: float = inf
    usual_s: float = inf  # of a job that asks for no time limit
    most_nodes: float = inf
    qos: str = ""  # whose limits its jobs have, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A cluster's nodes by number."""

    sizes: Sequence[int]  # GPUs of each
    types: Sequence[str]  # their model; empty: unknown
    partitions: Mapping[str, PartitionNodes]
    usual: str  # partition of jobs that name none
    enforces: bool = False  # EnforcePartLimits: sbatch refuses what is above a partition's limits

    def allowed(self, partition: str) -> PartitionNodes:
        """The partition of a job; one without nodes where there is none of that name."""
        return self.partitions.get(partition or self.usual, PartitionNodes(nodes=0))

    def room(self, gpus: int, partition: str, gpu_type: str, limit_s: float) -> Room | None:
        """The room of a job; None: it can never run. `limit_s`: NaN where it has none."""
        allowed = self.partitions.get(partition or self.usual)
        if allowed is None:
            return None
        nodes = allowed.nodes & self._of_type(gpu_type)
        shape = self._shape(gpus, nodes)
        if shape is None or self.above(gpus, partition, gpu_type, limit_s):
            return None
        return (shape, nodes, allowed.nodes) if Levels(self.sizes).fits(shape, nodes) else None

    def above(self, gpus: int, partition: str, gpu_type: str, limit_s: float) -> str:
        """Which limit of its partition a job is above; empty: it is above none."""
        name = partition or self.usual
        allowed = self.allowed(name)
        shape = self._shape(gpus, allowed.nodes & self._of_type(gpu_type))
        if limit_s > allowed.most_s:
            return f"MaxTime={allowed.most_s / 60:g} minutes of partition {name}"
        if shape is not None and shape.nodes > allowed.most_nodes:
            return f"MaxNodes={allowed.most_nodes:g} of partition {name}"
        return ""

    def _shape(self, gpus: int, nodes: int) -> Need | None:
        """The room of a job on the largest of some nodes; None: none of them has GPUs."""
        largest = max((self.sizes[node] for node in members(nodes)), default=0)
        return shape_on(gpus, largest) if largest else None

    def _of_type(self, gpu_type: str) -> int:
        """All nodes where none is asked for, or where no model is known."""
        if not gpu_type or not any(self.types):
            return set_of(range(len(self.sizes)))
        return set_of(node for node, there in enumerate(self.types) if there == gpu_type)
