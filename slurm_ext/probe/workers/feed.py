"""A sampler in front of the user's own: indices that workers did not make go back to it."""

from __future__ import annotations

import collections
import itertools
from typing import Any, Iterator

from ..inspection.index_iterators import batched_again
from ..inspection.samplers import Drawing


class Feed:
    """A sampler that draws from the user's and remembers what has not been delivered yet.

    It draws no further ahead than `allow` found right; a `drawing` of None: nothing against it.
    """

    def __init__(
        self, rest: Iterator[Any], pending: collections.deque[Any], drawing: Drawing | None
    ) -> None:
        self.rest, self.pending, self.drawing = rest, pending, drawing
        self.drawn = 0
        self.allowed = 0.0

    def allow(self) -> None:
        """The training asks for the batch after those that were drawn."""
        self.allowed = float("inf") if self.drawing is None else self.drawing.until(self.drawn)

    def may_draw(self) -> bool:
        """False where it holds back what its sampler may still have."""
        return self.drawn < self.allowed

    def put_back(self, index_sampler: Any) -> None:
        """Draw again what was not delivered, in its order, in batches as the sampler is set now."""
        drawn = tuple(self.pending)
        again = batched_again(index_sampler, drawn, self.rest)
        self.rest = itertools.chain(drawn, self.rest) if again is None else again
        self.drawn -= len(self.pending)
        self.pending.clear()

    def draw(self) -> Any:
        """The next index, for the training process."""
        index = next(self.rest)
        self.drawn += 1
        return index

    def __iter__(self) -> Feed:
        return self

    def __next__(self) -> Any:
        if not self.may_draw():
            raise StopIteration
        index = self.draw()
        self.pending.append(index)
        return index
