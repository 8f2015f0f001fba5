"""Quantiles of histograms: SQL counts into bins, this concludes. Pure."""

from collections.abc import Sequence

Bins = Sequence[tuple[int, float]]  # (number, weight), numbers rising


def quantile(bins: Bins, at: float, width: float) -> float | None:
    """Of what was counted in bins [k width, (k + 1) width), evenly within each; None of nothing."""
    total = sum(weight for _, weight in bins)
    if total <= 0:
        return None
    before = 0.0
    for number, weight in bins:
        if weight > 0 and before + weight >= at * total:
            return width * (number + (at * total - before) / weight)
        before += weight
    return width * (bins[-1][0] + 1)


def coarser(bins: Bins, by: int) -> list[tuple[int, float]]:
    """Bins that are `by` times as wide."""
    found: dict[int, float] = {}
    for number, weight in bins:
        found[number // by] = found.get(number // by, 0.0) + weight
    return sorted(found.items())
