"""Promises of backfill to waiting jobs: whole nodes, from a time to a time.

Slurm keeps room on whole nodes, also where the job needs a part of them (sched/backfill's
`node_space`); the plan is made anew in each round.
"""

from bisect import bisect_right, insort
from functools import reduce
from math import inf
from operator import or_


class Reserved:
    """Promises of one round: a set of nodes for each stretch of time."""

    def __init__(self) -> None:
        self._since_s = [-inf]  # a stretch lasts until the next one begins
        self._nodes = [0]
        self._ends: list[float] = []

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, begin_s: float, end_s: float, nodes: int) -> None:
        """Promise nodes."""
        first, after = self._border(begin_s), self._border(end_s)
        for stretch in range(first, after):
            self._nodes[stretch] |= nodes
        insort(self._ends, end_s)

    def within(self, begin_s: float, end_s: float) -> int:
        """Nodes that are promised to somebody at a time between, or from its end on."""
        first = bisect_right(self._since_s, begin_s) - 1
        return reduce(or_, self._nodes[first : bisect_right(self._since_s, end_s)])

    def next_end(self, now_s: float) -> float:
        """End of the next promise, from which on its nodes are free; inf: no other one ends."""
        place = bisect_right(self._ends, now_s)
        return self._ends[place] if place < len(self._ends) else inf

    def _border(self, when_s: float) -> int:
        """The stretch that begins at a time."""
        place = bisect_right(self._since_s, when_s) - 1
        if self._since_s[place] == when_s:
            return place
        self._since_s.insert(place + 1, when_s)
        self._nodes.insert(place + 1, self._nodes[place])
        return place + 1
