"""A queue in order, in which jobs stand aside while a limit keeps them back.

Slurm skips such a job: nobody behind it waits for it, and no room is kept for it. A job is set
aside when it is looked at in vain, and comes back once the sum that kept it back has become
smaller; of jobs of one claim no more than are looked at in one go, so that each event costs as much
as the front is deep, however many wait.
"""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush, heappushpop

from slurm_ext.simulate.limits.budgets import Budgets
from slurm_ext.simulate.queue.bounded_queue import BoundedQueue
from slurm_ext.simulate.queue.rank import number_of


class LimitedQueue(BoundedQueue[int]):
    """Of each claim that is open the first `depth` jobs are in the queue, or more, or all."""

    def __init__(self, depth: int, budgets: Budgets, ranks: Sequence[int] = ()) -> None:
        self._budgets = budgets
        self._aside: dict[int, list[int]] = {}  # by claim, as a heap
        self._watched: dict[int, dict[int, None]] = {}  # counter: claims that it keeps back
        kept: list[int] = []
        for rank in ranks:
            claim = budgets.of[number_of(rank)]
            closed = budgets.blocker(claim) is not None
            (self._aside.setdefault(claim, []) if closed else kept).append(rank)
        super().__init__(depth, kept)
        for claim, heap in self._aside.items():
            heapify(heap)
            self._watch(claim)

    def __len__(self) -> int:
        return super().__len__() + sum(map(len, self._aside.values()))

    def ranks(self) -> list[int]:
        """Ranks of all jobs in it, in no order."""
        return super().ranks() + [rank for heap in self._aside.values() for rank in heap]

    def push(self, rank: int) -> bool:
        """Let a job in; says whether somebody came to stand in the front."""
        claim = self._budgets.of[number_of(rank)]
        if self._budgets.blocker(claim) is not None:
            self._put_aside(rank)
            return False
        if self._aside.get(claim):
            rank = heappushpop(self._aside[claim], rank)
        return super().push(rank)

    def drop(self, rank: int) -> None:
        """Take out the job of a rank. Raises ValueError where it is not there."""
        claim = self._budgets.of[number_of(rank)]
        heap = self._aside.get(claim, [])
        if rank in heap:
            heap.remove(rank)
            heapify(heap)
        else:
            super().drop(rank)
            self._fill(claim, 1)

    def looked(self, most: int) -> Iterator[int]:
        """Jobs of the front in their order, while they start; none that a limit keeps back.

        Those that come to the front because others have started are not among them.
        """
        index, left = 0, min(most, len(self.front))
        while left and index < len(self.front):
            rank = self.front[index]
            if self.keeps_back(rank):
                self._put_aside(self.pop(index))
                continue
            left -= 1
            yield rank
            index += index < len(self.front) and self.front[index] == rank

    def keeps_back(self, rank: int) -> bool:
        """True if a limit does not let the job start now."""
        return self._budgets.blocker(self._budgets.of[number_of(rank)]) is not None

    def start(self, index: int) -> int:
        """Take out the job at an index of the front, which runs from now on."""
        rank = self.pop(index)
        self._budgets.runs(number_of(rank))
        self._fill(self._budgets.of[number_of(rank)], 1)
        return rank

    def stopped(self, job: int) -> None:
        """Let those back in who waited for what a job has given back."""
        for counter, adds in self._budgets.runs(job, -1):
            for claim in self._watched.pop(counter, {}) if adds else ():
                self._fill(claim, self.depth)

    def look_at_meters(self) -> bool:
        """Let those back in whose limit's minutes have decayed; says whether there are any."""
        waiting = len(self.front)
        for counter in [number for number in self._watched if number < 0]:
            for claim in self._watched.pop(counter):
                self._fill(claim, self.depth)
        return len(self.front) > waiting

    def _fill(self, claim: int, most: int) -> None:
        """Let the first ones back in, if no limit keeps them back any more."""
        heap = self._aside.get(claim)
        if not heap:
            return
        if self._budgets.blocker(claim) is not None:
            self._watch(claim)
            return
        for _ in range(min(most, len(heap))):
            super().push(heappop(heap))

    def _put_aside(self, rank: int) -> None:
        claim = self._budgets.of[number_of(rank)]
        heappush(self._aside.setdefault(claim, []), rank)
        self._watch(claim)

    def _watch(self, claim: int) -> None:
        """Have a claim looked at once the sum that keeps it back becomes smaller."""
        counter = self._budgets.blocker(claim)
        if counter is not None:
            self._watched.setdefault(counter, {})[claim] = None
