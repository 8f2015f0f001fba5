"""Charts by matplotlib as SVG to stand inside a page: its letters are text, its colours the page's.

matplotlib draws in colours that nobody would choose; each then becomes a CSS variable, so that one
plot serves light, dark and paper.
"""

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from itertools import accumulate
from math import floor, log10
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from slurm_ext.core.errors import Extra
from slurm_ext.report.formatting import seconds
from slurm_ext.report.tables import Chart, ChartSeries

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (6.4, 2.7)  # inches of 72 SVG units
LETTERS = 56  # that have room beside one another
INK, GRID = "#010203", "#010204"
LINES = ("#010205", "#010206", "#010207", "#010208", "#010209", "#01020a", "#01020b", "#01020c")
_VARIABLES = {INK: "--ink-soft", GRID: "--line"} | {
    colour: f"--plot-{number}" for number, colour in enumerate(LINES, 1)
}
_STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 12,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "ytick.left": False,
    "grid.color": GRID,
    "legend.frameon": False,
}


def require() -> None:
    """Raise MissingError if nothing can be drawn: a command says so before its work, not after."""
    with Extra("plots"):
        import matplotlib as mpl  # noqa: F401


def svg(chart: Chart, key: str, title: str) -> Markup:
    """The chart as an `svg` element with a title and a description; `key` keeps its ids apart."""
    with Extra("plots"):
        import matplotlib as mpl
        from matplotlib.figure import Figure

    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        figure = Figure(figsize=_size(chart), layout="constrained")
        axes = figure.add_subplot()
        _FORMS[chart.form](axes, chart)
        _dress(axes, chart)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True)
    return Markup(_inline(stream.getvalue(), key, title, chart.about))  # noqa: S704 (our own words)


def _size(chart: Chart) -> tuple[float, float]:
    """As high as its rows are many, of bars or of a legend."""
    wide, high = SIZE
    if chart.form == "rows":
        return wide, 0.8 + 0.33 * len(chart.ticks)
    names = [series.name for series in chart.series]
    return wide, high + 0.22 * ((len(names) - 1) // _columns(names))


def _bars(axes: "Axes", chart: Chart) -> None:
    """Side by side where there is more than one."""
    width = chart.width / len(chart.series)
    for number, series in enumerate(chart.series):
        left = [x + number * width for x, _ in series.points]
        heights = [y for _, y in series.points]
        style: dict[str, Any] = {"color": LINES[number], "label": series.name}
        axes.bar(left, heights, 0.9 * width, align="edge", **style)


def _lines(axes: "Axes", chart: Chart) -> None:
    for number, series in enumerate(chart.series):
        across, up = [x for x, _ in series.points], [y for _, y in series.points]
        marker = "o" if len(across) <= 40 else None
        axes.plot(across, up, color=LINES[number], label=series.name, marker=marker, markersize=4)
        _band(axes, series, LINES[number])
    if chart.diagonal:
        axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle="--", label="as promised")
    if chart.level is not None:
        axes.axhline(chart.level, color=INK, linewidth=1, linestyle="--", label=chart.level_name)


def _rows(axes: "Axes", chart: Chart) -> None:
    """One bar a row, its interval as a line upon it."""
    (series,) = chart.series
    places, lengths = [at for at, _ in series.points], [value for _, value in series.points]
    starts = [*accumulate(lengths, initial=0.0)][:-1] if chart.stacked else [0.0] * len(lengths)
    axes.barh(places, lengths, 0.6, left=starts, color=LINES[0])
    for place, (low, high) in zip(places, series.low_high, strict=False):
        axes.plot([low, high], [place, place], color=INK, linewidth=1.5, marker="|", markersize=9)
    axes.invert_yaxis()


def _points(axes: "Axes", chart: Chart) -> None:
    """Series without an order; one with a name that others lie around is drawn as a line."""
    for number, series in enumerate(chart.series):
        across, up = [x for x, _ in series.points], [y for _, y in series.points]
        style = "-" if series.joined else "none"
        axes.plot(
            across,
            up,
            color=LINES[number % len(LINES)],
            label=series.name,
            marker="o",
            markersize=5,
            linestyle=style,
        )


def _band(axes: "Axes", series: ChartSeries, colour: str) -> None:
    if series.low_high:
        across = [x for x, _ in series.points]
        low, high = zip(*series.low_high, strict=True)
        axes.fill_between(across, low, high, color=colour, alpha=0.18, linewidth=0)


_FORMS = {"bars": _bars, "lines": _lines, "points": _points, "rows": _rows}


def _dress(axes: "Axes", chart: Chart) -> None:
    """Labels, ticks and grid; shares are per cent."""
    with Extra("plots"):
        from matplotlib.ticker import MaxNLocator, PercentFormatter

    lying = chart.form == "rows"
    names, values = (axes.yaxis, axes.xaxis) if lying else (axes.xaxis, axes.yaxis)
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    values.grid(visible=True)
    values.set_major_locator(MaxNLocator(5))
    if chart.most is not None:
        reach = 0.0, max(values.get_view_interval()[1], chart.most)
        (axes.set_xlim if lying else axes.set_ylim)(*reach)
    if chart.shares:
        fine = values.get_view_interval()[1] < 0.05
        values.set_major_formatter(PercentFormatter(1.0, decimals=int(fine), symbol=" %"))
    if chart.ticks:
        low, high = _reach(chart)
        there = {at: label for at, label in chart.ticks.items() if low <= at <= high}
        names.set_ticks(list(there), list(there.values()))
    if len(chart.series) > 1 or chart.diagonal or chart.level is not None:
        _legend(axes)


def _legend(axes: "Axes") -> None:
    """Above the plot, in as many columns as there is room for its names."""
    handles, names = axes.get_legend_handles_labels()
    shown = [name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…" for name in names]
    axes.legend(
        handles,
        shown,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=_columns(shown),
        borderaxespad=0,
        handlelength=1.4,
    )


def _columns(names: Sequence[str]) -> int:
    """Names of a legend beside one another; four letters' room is for each one's line."""
    return min(5, max(1, LETTERS // (4 + max(map(len, names)))))


def _reach(chart: Chart) -> tuple[float, float]:
    if chart.diagonal:
        return 0.0, 1.0
    points: Sequence[float] = [x for series in chart.series for x, _ in series.points]
    return min(points), max(points) + chart.width


def _inline(text: str, key: str, title: str, about: str) -> str:
    """A file's SVG as an element among others: no prolog, no metadata, no style for the page."""
    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{key}-', body)
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{key}-", body)
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    body = re.sub(r"font: [^;\"]*?([0-9.]+px)[^;\"]*", r"font-size: \1", body)
    box = re.search(r'viewBox="[^"]*"', body)
    head = (
        f'<svg class="plot" {box[0] if box else ""} role="img"'
        f' aria-labelledby="{key}-name {key}-about">'
        f'<title id="{key}-name">{escape(title)}</title>'
        f'<desc id="{key}-about">{escape(about)}</desc>'
    )
    return head + body[body.index(">") + 1 :].replace("\n", "")


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
