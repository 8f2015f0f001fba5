"""Parts of the wait after a backward pass: the link's time, and waiting for a slower rank.

Each rank's waits are known for some iterations. In one of them the rank that came last waits for
the link alone; what others wait beyond it, they wait for that rank.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_Json = Mapping[str, Any]


def exposed_s(summary: _Json) -> float:
    """Seconds that a rank waits after its computing, each synchronised pass."""
    communication = summary.get("communication") or {}
    return max(0.0, (communication.get("comm_s") or 0.0) - (communication.get("overlap_s") or 0.0))


def waits_of(summary: _Json) -> dict[int, float]:
    """Exposed seconds of a rank by iteration, of those that its record keeps."""
    communication = summary.get("communication") or {}
    pairs = zip(
        communication.get("iterations") or (), communication.get("exposed_s") or (), strict=False
    )
    return {int(iteration): float(seconds) for iteration, seconds in pairs if iteration > 0}


def link_shares(summaries: Sequence[_Json]) -> list[float]:
    """The link's share of each rank's exposed wait; the rest is waiting for a slower rank."""
    if len(summaries) == 1:  # as in most records: nobody else is slow
        return [1.0]
    waits = [waits_of(summary) for summary in summaries]
    common = sorted(set.intersection(*map(set, waits))) if waits else []
    if not common:
        means = [exposed_s(summary) for summary in summaries]
        return _shares(min(means, default=0.0), means)
    weights = [after - before for before, after in zip([0, *common], common, strict=False)]
    link = _weighted([min(wait[step] for wait in waits) for step in common], weights)
    means = [_weighted([wait[step] for step in common], weights) for wait in waits]
    return _shares(link, means)


def _shares(link_s: float, means: Sequence[float]) -> list[float]:
    return [min(1.0, link_s / mean) if mean > 0 else 1.0 for mean in means]


def _weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum([v * w for v, w in zip(values, weights, strict=True)]) / sum(weights)
