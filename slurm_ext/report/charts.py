"""Curves of shares over time, as charts for a page: the axes of `dlqueue simulate`."""

from collections.abc import Mapping, Sequence
from math import floor, log10

from slurm_ext.report.formatting import seconds
from slurm_ext.report.tables import Chart, ChartSeries

Points = Sequence[tuple[float, float]]  # seconds, share (0 to 1)
DAY_S = 86400.0
_ROUND = (1.0, 10.0, 60.0, 600.0, 3600.0, DAY_S, 10 * DAY_S, 100 * DAY_S, 1000 * DAY_S)
_DAYS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def shares_by_time(about: str, y: str, series: Mapping[str, Points]) -> Chart:
    """Shares against seconds on a logarithmic axis; less than a second is a second."""
    lines = {n: [(log10(max(x, 1.0)), up) for x, up in points] for n, points in series.items()}
    return Chart(
        form="lines",
        about=about,
        x="time (logarithmic)",
        y=y,
        series=[ChartSeries(name, points) for name, points in lines.items()],
        ticks={log10(at): seconds(at) for at in _ROUND},
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
        series=[ChartSeries(name, points) for name, points in lines.items()],
        ticks={k * step: f"{k * step:g}" for k in range(floor(longest / step) + 1)},
    )
