"""Data loaders whose throughput curve says nothing about other numbers of CPUs and workers."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any

_Json = Mapping[str, Any]

AS_LARGE = 0.5  # of the training loader's samples; a smaller loader is for validation
A_PART = 0.1  # of its samples; fewer are left by a change in the last moments
AT_ONCE = 1.2  # of the process's time: loaders that add up to more ran together


class UnsupportedLoader(IntEnum):
    """Reason to ignore a run's curve; histories hold the values."""

    ITERABLE = 1
    TWO_LOADERS = 2
    BATCH_CHANGED = 3


CLAUSES: Mapping[int, str] = MappingProxyType(
    {
        UnsupportedLoader.ITERABLE: "its dataset is iterable: "
        "each worker would read all of it again",
        UnsupportedLoader.TWO_LOADERS: "it trains from two loaders at once: "
        "neither's curve is the job's",
        UnsupportedLoader.BATCH_CHANGED: "its batch size changed half-way: "
        "its runs have no one curve",
    }
)
"""The reason as a user reads it, after `left as it is:`."""


def unsupported_loader(summary: _Json, training: _Json) -> UnsupportedLoader | None:
    """Return the reason to ignore the curve of a process's training loader, or None."""
    if training.get("style") == "iterable":
        return UnsupportedLoader.ITERABLE
    others = [other for other in summary.get("loaders") or () if other is not training]
    if any(_same_data(other, training) for other in others if _trains(other, training)):
        return UnsupportedLoader.BATCH_CHANGED
    large = [other for other in others if _samples(other) >= AS_LARGE * _samples(training)]
    return (
        UnsupportedLoader.TWO_LOADERS if large and _at_once(summary, [training, *large]) else None
    )


def _trains(other: _Json, training: _Json) -> bool:
    """False for a loader that only evaluates: no step of an optimiser followed its batches."""
    return not _total(training, "steps") or _total(other, "steps") > 0


def _same_data(other: _Json, training: _Json) -> bool:
    """True if both loaders read one dataset, in batches of two sizes."""
    same = all(other.get(name) == training.get(name) for name in ("dataset", "length", "style"))
    sizes = {other.get("batch_size"), training.get("batch_size")}
    return same and len(sizes) == 2 and _samples(other) >= A_PART * _samples(training)


def _at_once(summary: _Json, loaders: Sequence[_Json]) -> bool:
    lived_s = (summary.get("ended_s") or 0.0) - (summary.get("started_s") or 0.0)
    return 0 < AT_ONCE * lived_s < sum(_total(loader, "wall_s") for loader in loaders)


def _samples(loader: _Json) -> float:
    return _total(loader, "samples")


def _total(loader: _Json, name: str) -> float:
    return float(sum(phase.get(name) or 0 for phase in loader["phases"]))
