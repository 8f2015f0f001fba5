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
    most_nodes: float = inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A cluster's nodes by number."""

    sizes: Sequence[int]  # GPUs of each
    types: Sequence[str]  # their model; empty: unknown
    partitions: Mapping[str, PartitionNodes]
    usual: str  # partition of jobs that name none

    def room(self, gpus: int, partition: str, gpu_type: str, limit_s: float) -> Room | None:
        """The room of a job; None: it can never run. `limit_s`: NaN where it has none."""
        found = self.partitions.get(partition or self.usual)
        if found is None or limit_s > found.most_s:
            return None
        nodes = found.nodes & self._of_type(gpu_type)
        largest = max((self.sizes[node] for node in members(nodes)), default=0)
        if not largest:
            return None
        shape = shape_on(gpus, largest)
        needed = shape.whole + (shape.rest > 0)
        fits = needed <= found.most_nodes and Levels(self.sizes).fits(shape, nodes)
        return (shape, nodes, found.nodes) if fits else None

    def _of_type(self, gpu_type: str) -> int:
        """All nodes where none is asked for, or where no model is known."""
        if not gpu_type or not any(self.types):
            return set_of(range(len(self.sizes)))
        return set_of(node for node, there in enumerate(self.types) if there == gpu_type)
