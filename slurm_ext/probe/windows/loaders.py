"""Loaders of a process, and which one the training reads: steps lie between its batches."""

from __future__ import annotations

from typing import Any, Callable

from .cache import BatchCache

_NEAR = 4  # requests to other loaders between two of one that trains: zipped loaders


class LoaderPlace:
    """One loader, over all its passes."""

    def __init__(self, sampler: Any, cache: BatchCache) -> None:
        self.sampler = sampler  # held, so that its id stays its own
        self.cache = cache
        self.trains = False
        self._iterator: int | None = None
        self._steps = 0
        self._request = 0

    def look(self, iterator: Any, steps: int, request: int) -> None:
        """See whether steps were done with the batch that it handed before."""
        same, near = self._iterator == id(iterator), request - self._request <= _NEAR
        self.trains = self.trains or (same and near and steps > self._steps)
        self._iterator, self._steps, self._request = id(iterator), steps, request

    def is_newer(self, other: LoaderPlace) -> bool:
        """True if the other was not asked since this one's batch before."""
        return self._request - other._request > _NEAR


class LoaderPlaces:
    """All loaders by their samplers: a loader makes a new iterator for each pass."""

    def __init__(self, new_cache: Callable[[], BatchCache]) -> None:
        self._new_cache = new_cache
        self._of: dict[int, LoaderPlace] = {}
        self.lead: LoaderPlace | None = None  # the one whose requests are the steps
        self.requests = 0

    def requested(self, iterator: Any, steps: int) -> LoaderPlace:
        """The place of an iterator that is asked for a batch, after so many steps in all."""
        self.requests += 1
        sampler = iterator._index_sampler
        place = self._of.get(id(sampler))
        if place is None:
            place = self._of[id(sampler)] = LoaderPlace(sampler, self._new_cache())
        place.look(iterator, steps, self.requests)
        if place.trains and (self.lead is None or place.is_newer(self.lead)):
            self.lead = place
        return place

    @staticmethod
    def length(iterator: Any) -> int:
        """Batches of a pass; a large number where nobody knows."""
        try:
            return len(iterator._index_sampler)
        except Exception:  # the user's own sampler, or an iterable dataset's
            return 1 << 30

    def clear(self) -> None:
        """Let the batches go."""
        for place in self._of.values():
            place.cache.clear()
