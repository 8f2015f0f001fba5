"""Events of a replay's nodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from slurm_ext.simulate.outages.failures import Failures
from slurm_ext.simulate.outages.node_change import NodeChange, node_changes
from slurm_ext.simulate.outages.node_counts import NodeCount, closings


@dataclass(frozen=True, slots=True, kw_only=True)
class Outages:
    """Failures of nodes, and how many there are over time."""

    failures: Failures | None = None
    counts: Sequence[NodeCount] = ()

    def changes(
        self, pool: int, nodes: int, partitions: Mapping[str, int], first_s: float, seed: int
    ) -> Iterator[NodeChange]:
        """Changes of a pool's nodes; `first_s`: the trace's time at which the replay begins."""
        events = self.failures.events(nodes, seed, pool) if self.failures else ()
        return node_changes(events, closings(self.counts, partitions, first_s))
