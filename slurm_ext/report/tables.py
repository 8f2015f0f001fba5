"""Parts of a report as plain data: every format is written from the same tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal[
    "text",
    "name",
    "words",
    "id",
    "count",
    "number",
    "share",
    "change",
    "hours",
    "money",
    "seconds",
    "bytes",
    "rate",
    "energy",
    "time",
]
"""What a cell is: words are a sentence, shares 0 to 1, changes ratios, times since the epoch."""


JOB = "job_id"  # key of columns whose cells are jobs: they lead to their pages


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name in CSV and JSON, its heading for people, and what its cells are."""

    key: str
    head: str
    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """One line, or set of bars or points: (x, y) in data units."""

    name: str
    points: Sequence[tuple[float, float]]
    low_high: Sequence[tuple[float, float]] = ()  # an interval around each point
    joined: bool = False  # points that are one curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A plot of a table; `about` describes it in words.

    Rows are bars that lie: their points are (place, value), the first on top, named by `ticks`.
    """

    form: Literal["bars", "lines", "points", "rows"]
    about: str
    x: str
    y: str
    series: Sequence[ChartSeries]
    width: float = 0.0  # of a bar, in x
    ticks: Mapping[float, str] = field(default_factory=dict)
    diagonal: bool = False
    level: float | None = None  # a line at this y
    level_name: str = "promised"
    shares: bool = True  # values are shares of 1; else plain numbers
    most: float | None = None  # values are shown from 0 to this, at least
    stacked: bool = False  # rows that each begin where the one above ends


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """Rows of numbers with a caption; `folded`: the figures behind a chart, shown on demand."""

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: Sequence[tuple[Any, ...]]
    note: str = ""
    chart: Chart | None = None
    folded: bool = False
    heat: bool = False  # its numbers are ratios to be coloured by


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of the report: its result in a line, notes, and the figures."""

    key: str
    title: str
    answer: str  # one short line, also at the top of the page
    lead: tuple[str, ...] = ()
    tables: tuple[ReportTable, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole report; `facts` are (what, value) of its head."""

    cluster: str
    made_s: float
    version: str
    since_s: float | None
    until_s: float | None
    account: str | None
    users: str
    runs: int
    sections: tuple[Section, ...]


def texts(*pairs: tuple[str, str]) -> tuple[Column, ...]:
    """Columns of plain text, by key and heading."""
    return tuple(Column(key, head) for key, head in pairs)
