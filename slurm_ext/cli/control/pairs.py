"""Status of the co-scheduling loop: which waiting CPU jobs start beside which."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType


def lines(status: Mapping[str, Any]) -> "Iterator[RenderableType]":
    """The mode, and a row for each job that waits, runs or is left alone."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("job", "now", "node", "why or how fast", box=None)
    for row in status["waiting"]:
        now = "starts" if row["start"] else "may start" if row.get("free") else "waits"
        table.add_row(row["job"], now, row["place"] or "-", escape(row["reason"]))
    for row in status["running"]:
        speed = "" if row["speed"] is None else f"{row['speed']:.0%} of its speed alone"
        table.add_row(row["job"], "runs", row["node"], speed)
    for job, why in sorted(status["left_alone"].items()):
        table.add_row(job, "left alone", "-", escape(why))
    yield f"mode {status['mode']}"
    yield table
