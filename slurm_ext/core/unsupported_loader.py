"""Why a run's curve says nothing of other shapes: loaders that dlqueue cannot reason about."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any

_Json = Mapping[str, Any]

AS_LARGE = 0.5  # of the training loader's samples: a smaller loader beside it is a validation's
A_PART = 0.1  # of them: what a change of the batch size in the last moments leaves behind
AT_ONCE = 1.2  # loaders whose times add up to more than the process's were used together


class UnsupportedLoader(IntEnum):
    """Kept with a run's evidence; the values are in histories."""

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
"""Each doubt for the user, after `left as it is:`."""


def unsupported_loader(summary: _Json, training: _Json) -> UnsupportedLoader | None:
    """What speaks against the curve of a process's training loader; None: nothing."""
    if training.get("style") == "iterable":
        return UnsupportedLoader.ITERABLE
    others = [other for other in summary.get("loaders") or () if other is not training]
    if any(_same_data(other, training) for other in others):
        return UnsupportedLoader.BATCH_CHANGED
    large = [other for other in others if _samples(other) >= AS_LARGE * _samples(training)]
    return (
        UnsupportedLoader.TWO_LOADERS if large and _at_once(summary, [training, *large]) else None
    )


def _same_data(other: _Json, training: _Json) -> bool:
    """Whether one dataset was read in batches of two sizes."""
    alike = all(other.get(name) == training.get(name) for name in ("dataset", "length", "style"))
    sizes = {other.get("batch_size"), training.get("batch_size")}
    return alike and len(sizes) == 2 and _samples(other) >= A_PART * _samples(training)


def _at_once(summary: _Json, loaders: Sequence[_Json]) -> bool:
    lived_s = (summary.get("ended_s") or 0.0) - (summary.get("started_s") or 0.0)
    return 0 < AT_ONCE * lived_s < sum(_total(loader, "wall_s") for loader in loaders)


def _samples(loader: _Json) -> float:
    return _total(loader, "samples")


def _total(loader: _Json, name: str) -> float:
    return float(sum(phase.get(name) or 0 for phase in loader["phases"]))
