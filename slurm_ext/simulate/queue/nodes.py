"""Free GPUs of equal nodes, and where a job is put: on as few nodes as it can be.

Whole nodes first, and the remainder on the node that it fills best, as Helios and Slurm's
consolidated jobs are placed. Nodes are kept by how many of their GPUs are free, so that a place is
found in O(GPUs of a node), whatever the number of nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

Places = Sequence[tuple[int, int]]  # (node, GPUs taken there)


class Nodes:
    """`count` nodes of `per_node` GPUs each, all free at first."""

    def __init__(self, count: int, per_node: int) -> None:
        self.per_node = per_node
        self.total = count * per_node  # free in all
        self.free = [per_node] * count
        # A dict keeps its order, so that which of equal nodes is taken never depends on chance.
        self.levels: list[dict[int, None]] = [{} for _ in range(per_node + 1)]
        self.levels[per_node] = dict.fromkeys(reversed(range(count)))

    def find(self, gpus: int, spare: Mapping[int, int] | None = None) -> Places | None:
        """A place for a job; None where it does not fit now.

        On a node named in `spare` no more GPUs than it says are taken.
        """
        if spare or gpus >= self.per_node:
            return self._search(gpus, spare or {})
        for level in range(gpus, self.per_node + 1):
            if self.levels[level]:
                return ((next(reversed(self.levels[level])), gpus),)
        return None

    def take(self, places: Places) -> None:
        """Mark GPUs as used."""
        for node, gpus in places:
            self._move(node, self.free[node] - gpus)

    def give(self, places: Places) -> None:
        """Mark GPUs as free."""
        for node, gpus in places:
            self._move(node, self.free[node] + gpus)

    def _search(self, gpus: int, spare: Mapping[int, int]) -> Places | None:
        whole, rest = divmod(gpus, self.per_node)
        chosen = list(islice(self._nodes(self.per_node, self.per_node, spare), whole))
        if len(chosen) < whole:
            return None
        places = [(node, self.per_node) for node in chosen]
        if not rest:
            return places
        for level in range(rest, self.per_node + 1):
            for node in self._nodes(level, rest, spare):
                if node not in chosen:
                    return [*places, (node, rest)]
        return None

    def _nodes(self, level: int, least: int, spare: Mapping[int, int]) -> Iterator[int]:
        """Nodes with `level` free GPUs of which at least `least` may be taken."""
        return (node for node in reversed(self.levels[level]) if spare.get(node, least) >= least)

    def _move(self, node: int, free: int) -> None:
        self.total += free - self.free[node]
        del self.levels[self.free[node]][node]
        self.levels[free][node] = None
        self.free[node] = free
