"""A queue in order, of any length: a sorted front of bounded depth, and a heap behind it.

Entering, leaving and reading the front are O(log n) and O(depth); only the front is ever looked
through, as Slurm's bf_max_job_test bounds its backfill.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Rank = TypeVar("Rank", int, tuple[float, int])


class BoundedQueue(Generic[Rank]):
    """Jobs by rank: the lower goes first; no rank is twice in it."""

    def __init__(self, depth: int, ranks: Iterable[Rank] = ()) -> None:
        self.depth = max(1, depth)
        waiting = sorted(ranks)
        self.front: list[Rank] = waiting[: self.depth]
        self._behind: list[Rank] = waiting[self.depth :]

    def __len__(self) -> int:
        return len(self.front) + len(self._behind)

    def ranks(self) -> list[Rank]:
        """Ranks of all jobs in it, in no order."""
        return self.front + self._behind

    def push(self, rank: Rank) -> bool:
        """Let a job in; says whether it came to stand in the front."""
        if self._behind and rank > self.front[-1]:
            heappush(self._behind, rank)
            return False
        insort(self.front, rank)
        if len(self.front) <= self.depth:
            return True
        last = self.front.pop()
        heappush(self._behind, last)
        return last != rank

    def pop(self, index: int = 0) -> Rank:
        """Take the job at an index of the front out; the front fills from behind."""
        rank = self.front.pop(index)
        if self._behind:
            self.front.append(heappop(self._behind))
        return rank

    def drop(self, rank: Rank) -> None:
        """Take out the job of a rank. Raises ValueError where it is not there."""
        index = self.index(rank)
        if index is not None:
            self.pop(index)
            return
        self._behind.remove(rank)
        heapify(self._behind)

    def index(self, rank: Rank) -> int | None:
        """Index of a job in the front; None: it is not there."""
        index = bisect_left(self.front, rank)
        return index if index < len(self.front) and self.front[index] == rank else None
