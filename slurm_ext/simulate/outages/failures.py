"""Failures of nodes: drawn for each node from its mean time between failures, then repaired.

A node fails whether it is busy or not, so that all policies of one seed see the same failures.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heapreplace

import numpy as np

from slurm_ext.simulate.outages.node_change import NodeEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """`requeues`: a failed node's job waits again, as with Slurm's JobRequeue=1; else it fails."""

    between_s: float  # mean time between two failures of one node
    repair_s: float
    requeues: bool = True

    def events(self, nodes: int, seed: int, pool: int = 0) -> Iterator[NodeEvent]:
        """Failures and returns of nodes by time, without an end."""
        rng = np.random.default_rng((seed, pool))
        drawn = rng.exponential(self.between_s, nodes).tolist()
        heap = [NodeEvent(when_s, node, fails=True) for node, when_s in enumerate(drawn)]
        heapify(heap)
        while heap:
            event = heap[0]
            yield event
            wait_s = self.repair_s if event.fails else float(rng.exponential(self.between_s))
            after = NodeEvent(event.when_s + wait_s, event.node, fails=not event.fails)
            heapreplace(heap, after)
