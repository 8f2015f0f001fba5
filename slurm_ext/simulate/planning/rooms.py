"""Room that each job needs, by its number, and nodes that it may be on."""

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.simulate.planning.levels import Need


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """Columns by job; nodes are sets."""

    shape: Sequence[Need]
    nodes: Sequence[int]
    partition: Sequence[int]  # all nodes of its partition
