"""The soak for people, as Markdown with a plot beside it."""

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from contrib.bench.soak.plots import plot

Row = Mapping[str, Any]


def write_page(
    path: Path, rows: Sequence[Row], verdicts: Mapping[str, Any], *, load: float, commit: str
) -> None:
    """Write the page to `path`, and the plot to the file of that name that ends in .svg."""
    drawing = path.with_suffix(".svg")
    plot(rows, drawing)
    path.write_text(page(rows, verdicts, load=load, commit=commit, drawing=drawing.name))


def page(
    rows: Sequence[Row], verdicts: Mapping[str, Any], *, load: float, commit: str, drawing: str
) -> str:
    """Return the page: records and their rate, each figure with its verdict, and the plot."""
    last, rates = rows[-1], [row["rate"] for row in rows]
    lines = [
        "# The soak",
        "",
        "Written by `python -m contrib.bench.soak --page`; do not edit. Submissions and records by",
        "the real path, without Slurm: a node's file, transport, spool, history, trainings.",
        "*Cores*: processors that a process kept busy. *Queued*: share of the time in which it",
        "waited for one. *Held back*: share in which a full spool held the feed back.",
        "",
        f"**{last['records']:,.0f} records in {last['t_s'] / 60:.0f} minutes**, in the middle row",
        f"{median(rates):.0f} a second. {os.cpu_count()} cores, {platform.machine()},",
        f"load {load:.1f} before its last start, commit {commit}.",
        "",
        "| figure | first | middle | last | most | verdict |",
        "|---|---|---|---|---|---|",
        *(_line(name, rows, verdicts.get(name)) for name in _figures(rows)),
        "",
        f"![Memory, descriptors, disk, waits, records and processors over time]({drawing})",
    ]
    return "\n".join([*lines, ""])


def _figures(rows: Sequence[Row]) -> list[str]:
    return sorted({name for row in rows for name in row} - {"t_s", "records"})


def _line(name: str, rows: Sequence[Row], verdict: Mapping[str, Any] | None) -> str:
    values = [float(row[name]) for row in rows if name in row]
    cells = [_figure(value) for value in (values[0], median(values), values[-1], max(values))]
    words = name.replace("_", " ").replace("mib", "MiB")
    return f"| {' | '.join([words, *cells, _words(verdict)])} |"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _words(verdict: Mapping[str, Any] | None) -> str:
    """The verdict of the slope test; empty for what follows the rate."""
    if verdict is None:
        return ""
    if verdict["grows"] is None:
        return f"unknown: {verdict['why']}"
    each = f"{verdict['bytes_each']:,.0f} bytes a record" if "bytes_each" in verdict else ""
    return ", ".join(filter(None, ("**grows**" if verdict["grows"] else "level", each)))
