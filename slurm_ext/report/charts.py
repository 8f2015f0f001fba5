"""Line charts as plain numbers for an SVG template: no script, no picture, nothing to fetch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

WIDTH, HEIGHT = 640, 260  # of the plotted area, in SVG units
COLOURS = ("#0b6e99", "#d9480f", "#2b8a3e", "#862e9c", "#c2255c", "#5c4813", "#364fc7", "#868e96")
Points = Sequence[tuple[float, float]]
_TIMES = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_DAYS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, slots=True)
class Mark:
    """A tick: where it is on its axis and what it says."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """One line of a chart."""

    name: str
    colour: str
    path: str  # the d of an SVG path


@dataclass(frozen=True, slots=True)
class Chart:
    """What the template draws; y grows downwards, as in SVG."""

    title: str
    lines: Sequence[Drawn]
    x_marks: Sequence[Mark]
    y_marks: Sequence[Mark]


def shares_by_time(title: str, series: Mapping[str, Points]) -> Chart:
    """Shares (0 to 1) against seconds on a logarithmic axis; less than a second is a second."""
    longest = max((x for points in series.values() for x, _ in points), default=1.0)
    decades = max(1, ceil(log10(max(longest, 10.0))))

    def across(seconds: float) -> float:
        return WIDTH * log10(max(seconds, 1.0)) / decades

    marks = [Mark(across(10.0**power), spoken(10.0**power)) for power in range(decades + 1)]
    return Chart(title, _drawn(series, across), marks, _percent())


def shares_over_time(title: str, series: Mapping[str, Points]) -> Chart:
    """Shares (0 to 1) against seconds since the first submission, in days."""
    longest = max((x for points in series.values() for x, _ in points), default=0.0) or 1.0

    def across(seconds: float) -> float:
        return WIDTH * seconds / longest

    days = longest / 86400
    step = next((step for step in _DAYS if days / step <= 10), days / 10)
    marks = [
        Mark(across(k * step * 86400), f"{k * step:g} d") for k in range(floor(days / step) + 1)
    ]
    return Chart(title, _drawn(series, across), marks, _percent())


def spoken(seconds: float) -> str:
    """A duration in its largest unit: `2.8 h`."""
    size, unit = next((part for part in _TIMES if seconds >= part[0]), _TIMES[-1])
    return f"{seconds / size:.3g} {unit}"


def _drawn(series: Mapping[str, Points], across: Callable[[float], float]) -> list[Drawn]:
    found = []
    for number, (name, points) in enumerate(series.items()):
        steps = (f"{across(x):.1f} {HEIGHT * (1 - min(max(y, 0.0), 1.0)):.1f}" for x, y in points)
        path = "M" + "L".join(steps) if points else ""
        found.append(Drawn(name, COLOURS[number % len(COLOURS)], path))
    return found


def _percent() -> list[Mark]:
    return [Mark(HEIGHT * (1 - share / 4), f"{25 * share} %") for share in range(5)]
