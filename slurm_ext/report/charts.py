"""Curves of shares over time, as charts for a page: the axes of `dlqueue simulate`."""

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10

from slurm_ext.report.tables import Chart, Series
from slurm_ext.report.words import seconds

Points = Sequence[tuple[float, float]]  # seconds, share (0 to 1)
DAY_S = 86400.0
_DAYS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def shares_by_time(about: str, y: str, series: Mapping[str, Points]) -> Chart:
    """Shares against seconds on a logarithmic axis; less than a second is a second."""
    longest = max((x for points in series.values() for x, _ in points), default=1.0)
    decades = max(1, ceil(log10(max(longest, 10.0))))
    lines = {n: [(log10(max(x, 1.0)), up) for x, up in points] for n, points in series.items()}
    return Chart(
        form="lines",
        about=about,
        x="time (logarithmic)",
        y=y,
        series=[Series(name, points) for name, points in lines.items()],
        ticks={float(power): seconds(10.0**power) for power in range(decades + 1)},
    )


def shares_over_time(about: str, y: str, series: Mapping[str, Points]) -> Chart:
    """Shares against seconds since the first submission, in days."""
    longest = max((x for points in series.values() for x, _ in points), default=0.0) / DAY_S
    step = next((step for step in _DAYS if longest / step <= 10), longest / 10)
    lines = {n: [(x / DAY_S, up) for x, up in points] for n, points in series.items()}
    return Chart(
        form="lines",
        about=about,
        x="days since the first submission",
        y=y,
        series=[Series(name, points) for name, points in lines.items()],
        ticks={k * step: f"{k * step:g}" for k in range(floor(longest / step) + 1)},
    )
