"""Draws what a soak held over time, as one SVG of six panels."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Row = Mapping[str, Any]
_SIZE_IN = (10.0, 10.5)
PANELS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    (
        "Memory",
        "MiB",
        {"advisor_mib": "advisor", "writer_mib": "history writer", "training_mib": "training"},
    ),
    ("Open files", "descriptors", {"advisor_fds": "advisor", "writer_fds": "history writer"}),
    ("Disk", "MiB", {"history_mib": "history", "log_mib": "its log", "journal_mib": "journals"}),
    ("A submission", "ms", {"submit_p50_ms": "median", "submit_p99_ms": "99th percentile"}),
    ("Records", "a second, or waiting", {"rate": "taken a second", "backlog": "in the spool"}),
    (
        "Processors",
        "cores",
        {
            "feed_cores": "the bench's feed",
            "advisor_cores": "advisor",
            "writer_cores": "history writer",
            "training_cores": "training",
        },
    ),
)
"""Title, unit, and the figures with their words."""
_RATIOS = ("A submission", "Records")  # on a logarithmic axis


def plot(rows: Sequence[Row], path: Path) -> None:
    """Write the panels to `path`; a figure that no row has is left out."""
    figure = Figure(figsize=_SIZE_IN, layout="constrained")
    axes = figure.subplots(3, 2, sharex=True).flat
    for at, (title, unit, names) in zip(axes, PANELS, strict=True):
        _panel(at, rows, names)
        at.set(title=title, ylabel=unit)
        at.set_yscale("symlog" if title in _RATIOS else "linear")
        at.set_ylim(bottom=0)
    figure.supxlabel("minutes")
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "soak"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


def _panel(at: Axes, rows: Sequence[Row], names: Mapping[str, str]) -> None:
    for name, words in names.items():
        having = [row for row in rows if name in row]
        if having:
            minutes = [row["t_s"] / 60 for row in having]
            at.plot(minutes, [row[name] for row in having], label=words, linewidth=1)
    if at.lines:
        at.legend(fontsize="small", frameon=False)
    at.grid(alpha=0.3)
