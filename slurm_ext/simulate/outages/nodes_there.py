"""The nodes of one pool that take no jobs now, and how many idle GPUs that is over time."""

from collections.abc import Iterable
from math import inf

from slurm_ext.simulate.outages.node_change import NodeChange
from slurm_ext.simulate.planning.levels import Levels, Places, members

Log = list[tuple[float, int]]  # time, idle GPUs more that are out from then on


class NodesThere:
    """Follows changes; `out` is a set of nodes."""

    def __init__(self, changes: Iterable[NodeChange], log: Log) -> None:
        self._changes, self._log = iter(changes), log
        self._next = next(self._changes, None)
        self.out = 0

    @property
    def next_s(self) -> float:
        """Time of the next change."""
        return inf if self._next is None else self._next.when_s

    def change(self, levels: Levels, now_s: float) -> int | None:
        """Follow all changes until now; the nodes that failed. None: there was no change."""
        failed = None
        while self._next is not None and self._next.when_s <= now_s:
            self._log_idle(levels, self._next.when_s, self._next.out)
            self.out = self._next.out
            failed = (failed or 0) | self._next.failed
            self._next = next(self._changes, None)
        return failed

    def given(self, places: Places, now_s: float) -> None:
        """A job has given GPUs back; those on nodes that are out stay idle."""
        for node, gpus in places if self.out else ():
            if self.out >> node & 1:
                self._log.append((now_s, gpus))

    def _log_idle(self, levels: Levels, when_s: float, out: int) -> None:
        for nodes, sign in ((out & ~self.out, 1), (self.out & ~out, -1)):
            self._log.extend((when_s, sign * levels.free[node]) for node in members(nodes))
