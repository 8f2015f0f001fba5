"""The reservation of the job that is next: when it can start at the latest, and on which GPUs.

As Slurm's backfill plans it: running jobs are taken to end as expected, in that order, until the
job fits. One job, the first in the queue, has a reservation (EASY, Lifka 1995); Slurm itself plans
for several of those behind it, too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slurm_ext.simulate.queue.nodes import Nodes, Places


@dataclass(slots=True)
class Reservation:
    """Place and start of the first of the queue, if nothing ends early."""

    job: int
    start_s: float
    places: Places
    spare: dict[int, int]  # node of `places` -> GPUs that are free beside it from start_s on
    walked: list[int]  # jobs that have to end before

    def hold(self, places: Places) -> None:
        """A job that is still there at start_s has taken GPUs."""
        for node, gpus in places:
            if node in self.spare:
                self.spare[node] -= gpus


def reserve(
    nodes: Nodes, job: int, gpus: int, releases: Iterable[tuple[float, int, Places]]
) -> Reservation | None:
    """The earliest place after `releases` (time, job, places) in their order; None: no place."""
    later = _Later(nodes, *divmod(gpus, nodes.per_node))
    walked: list[int] = []
    start_s: float | None = None
    for when_s, other, places in releases:
        if start_s is not None and when_s > start_s:
            break
        walked.append(other)
        later.give(places)
        if start_s is None and later.enough():
            start_s = when_s  # and whatever else is given back at that time
    if start_s is None:
        return None
    places = later.places()
    spare = {node: later.free.get(node, nodes.free[node]) - taken for node, taken in places}
    return Reservation(job, start_s, places, spare, walked)


class _Later:
    """The nodes as they will be, once some of the running jobs have ended."""

    def __init__(self, nodes: Nodes, whole: int, rest: int) -> None:
        """Room is wanted for `whole` nodes and `rest` GPUs of another."""
        self._nodes, self._whole, self._rest = nodes, whole, rest
        self._counts = [len(level) for level in nodes.levels]
        self.free: dict[int, int] = {}  # of nodes that differ from now

    def give(self, places: Places) -> None:
        """A job has ended."""
        for node, gpus in places:
            before = self.free.get(node, self._nodes.free[node])
            self.free[node] = before + gpus
            self._counts[before] -= 1
            self._counts[before + gpus] += 1

    def enough(self) -> bool:
        """True if the wanted room is there."""
        full = self._counts[-1]
        if full < self._whole:
            return False
        return not self._rest or full > self._whole or any(self._counts[self._rest : -1])

    def places(self) -> Places:
        """The best nodes, where there are enough."""
        full = self._at(self._nodes.per_node)
        chosen = [(next(full), self._nodes.per_node) for _ in range(self._whole)]
        if not self._rest:
            return chosen
        for level in range(self._rest, self._nodes.per_node):
            for node in self._at(level):
                return [*chosen, (node, self._rest)]
        return [*chosen, (next(full), self._rest)]

    def _at(self, level: int) -> Iterator[int]:
        """Nodes that will have `level` GPUs free; those that become so come last."""
        yield from (node for node in self._nodes.levels[level] if node not in self.free)
        yield from (node for node, there in self.free.items() if there == level)
