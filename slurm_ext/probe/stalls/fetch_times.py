"""Histogram of how long fetches took: constant memory, and the difference of two is one again.

Its bins grow by a third of a doubling, so a percentile is right to an eighth of itself.
"""

from __future__ import annotations

import math
import struct
from typing import Any

BINS = 64
_SHORTEST_S = 1e-4  # the first bin ends here; the last one holds everything beyond 166 s
_PER_DOUBLING = 3
_ALL = struct.Struct(f"={BINS}I")
_ONE = struct.Struct("=I")
SIZE = _ALL.size


class FetchTimes:
    """Counts of fetches by how long they took."""

    __slots__ = ("counts",)

    def __init__(self, counts: tuple[int, ...] | None = None) -> None:
        self.counts = [*counts] if counts else [0] * BINS

    def add(self, seconds: float, times: int) -> int:
        """Count a fetch that stands for so many; return its bin."""
        place = _bin(seconds)
        self.counts[place] += times
        return place

    def publish(self, place: int, target: Any, offset: int) -> None:
        """Write one bin into a record whose histogram begins at `offset`."""
        _ONE.pack_into(target, offset + place * _ONE.size, self.counts[place])

    def __add__(self, other: Any) -> FetchTimes:
        """Both of them; a sum may begin with 0."""
        counts = other.counts if isinstance(other, FetchTimes) else [0] * BINS
        return FetchTimes(tuple(one + two for one, two in zip(self.counts, counts)))

    __radd__ = __add__

    def since(self, before: FetchTimes) -> FetchTimes:
        """Fetches since an earlier state of the same histogram."""
        pairs = zip(self.counts, before.counts)
        return FetchTimes(tuple(max(0, now - then) for now, then in pairs))

    def percentile_s(self, share: float) -> float | None:
        """Seconds that this share of the fetches stayed below; None: there were none."""
        wanted = share * sum(self.counts)
        reached = 0
        for place, count in enumerate(self.counts):
            reached += count
            if count and reached >= wanted:
                return float(_SHORTEST_S * 2.0 ** ((place - 0.5) / _PER_DOUBLING))
        return None


def parse(raw: bytes) -> FetchTimes:
    """The histogram in a worker's file; an empty one where it is not whole."""
    return FetchTimes(_ALL.unpack(raw)) if len(raw) == SIZE else FetchTimes()


def _bin(seconds: float) -> int:
    if seconds <= _SHORTEST_S:
        return 0
    return min(BINS - 1, 1 + int(math.log2(seconds / _SHORTEST_S) * _PER_DOUBLING))
