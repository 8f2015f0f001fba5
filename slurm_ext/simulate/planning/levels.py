"""Free GPUs of nodes that need not be equal: sets of nodes are integers, a bit a node.

A job is put on as few nodes as it can be: whole nodes, and the remainder on the one that it fills
best, the first of equal ones.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, islice
from operator import or_

Places = Sequence[tuple[int, int]]  # (node, GPUs taken there)


@dataclass(frozen=True, slots=True)
class Need:
    """Room that a job needs: `whole` nodes of `size` GPUs, and `rest` GPUs of another."""

    whole: int
    size: int
    rest: int

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.whole + (self.rest > 0)


def shape_on(gpus: int, size: int) -> Need:
    """The room of a job on nodes with so many GPUs."""
    whole, rest = divmod(gpus, size)
    return Need(whole, size, rest)


def members(nodes: int) -> Iterator[int]:
    """The nodes of a set, in their order."""
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


def set_of(nodes: Iterable[int]) -> int:
    """The set of some nodes."""
    bits = 0
    for node in nodes:
        bits |= 1 << node
    return bits


def nodes_of(places: Places) -> int:
    """The set of nodes of a job."""
    return set_of(node for node, _ in places)


def runs(nodes: int) -> Iterator[int]:
    """The neighbours in a set, as sets, in their order."""
    while nodes:
        run = nodes & ~(nodes + (nodes & -nodes))
        yield run
        nodes ^= run


class Levels:
    """`at[k]`: the nodes with k free GPUs."""

    def __init__(self, sizes: Sequence[int]) -> None:
        """`sizes`: GPUs of each node, all of them free."""
        self.free = list(sizes)
        self.at = [0] * (max(sizes, default=0) + 1)
        for node, size in enumerate(sizes):
            self.at[size] |= 1 << node
        self._least: list[int] | None = None  # the nodes with k free GPUs or more; None: changed

    def copy(self) -> "Levels":
        """The same, to be changed apart."""
        other = Levels(())
        other.free, other.at = self.free.copy(), self.at.copy()
        return other

    def idle(self) -> int:
        """The nodes with a free GPU."""
        some = 0
        for nodes in self.at[1:]:
            some |= nodes
        return some

    def fits(self, shape: Need, among: int) -> bool:
        """True if the room is there; none of the nodes has more GPUs than the shape's size."""
        if not shape.rest:
            return (self.at[shape.size] & among).bit_count() >= shape.whole
        some = (self._least or self._summed())[shape.rest] & among
        if not shape.whole:
            return some != 0
        full = (self.at[shape.size] & among).bit_count()
        return full >= shape.whole and some.bit_count() > shape.whole

    def _summed(self) -> list[int]:
        """The nodes with k free GPUs or more, by k."""
        self._least = [*accumulate(reversed(self.at), or_)][::-1]
        return self._least

    def find(self, shape: Need, among: int, *, packed: bool = True) -> Places | None:
        """A place for a job on some of the nodes; None where it does not fit.

        `packed`: the remainder goes to the node that it fills best. Else where Slurm looks for it:
        among the neighbours that have the least free in all, and there on the best one
        (`_eval_nodes` of select/cons_tres).
        """
        if not self.fits(shape, among):
            return None
        full = self.at[shape.size] & among
        if not packed and shape.whole:
            full = self._together(full, shape.whole)
        places = [(node, shape.size) for node in islice(members(full), shape.whole)]
        if not shape.rest:
            return places
        for node, _ in places:
            among ^= 1 << node
        levels = [at & among for at in self.at[shape.rest : shape.size + 1]]
        if not packed:
            run = self._together(reduce(or_, levels), 1)
            levels = [at & run for at in levels]
        best = next(filter(None, levels))
        return [*places, (next(members(best)), shape.rest)]

    def _together(self, nodes: int, count: int) -> int:
        """The neighbours with the least free GPUs that are enough nodes; all, where none are."""
        enough = (run for run in runs(nodes) if run.bit_count() >= count)
        return min(enough, key=self._free_on, default=nodes)

    def _free_on(self, nodes: int) -> int:
        return sum(k * (at & nodes).bit_count() for k, at in enumerate(self.at))

    def take(self, places: Places) -> None:
        """Mark GPUs as used."""
        for node, gpus in places:
            self.move(node, self.free[node] - gpus)

    def give(self, places: Places) -> None:
        """Mark GPUs as free."""
        for node, gpus in places:
            self.move(node, self.free[node] + gpus)

    def move(self, node: int, free: int) -> None:
        """So many GPUs of a node are free from now on."""
        self._least = None
        self.at[self.free[node]] ^= 1 << node
        self.at[free] ^= 1 << node
        self.free[node] = free
