"""Status of the node's loop: what each job lends and borrows, or its share and what it has."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType


def lines(status: Mapping[str, Any]) -> "Iterator[RenderableType]":
    """The mode with the reason, and a row for each job."""
    from rich.markup import escape

    yield f"mode {status['mode']}: {escape(status['reason'])}"
    yield _loans(status) if status.get("allocator") == "lend" else _shares(status)


def _loans(status: Mapping[str, Any]) -> "RenderableType":
    """Each job's own cores, its loans, and the measurements behind them."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("job", "cores", "lends", "borrows", "lent workers", box=None)
    for name in ("cores used", "waited for", "loop waits", "samples/s"):
        table.add_column(name, justify="right")
    table.add_column("why")
    for row in status["jobs"]:
        cells = [row[name] or "-" for name in ("cores", "lends", "borrows")]
        figures = ("used_cores", "queued_cores", "wait_share", "samples_per_s")
        why = row["disturbed_by"] or ""
        table.add_row(
            row["job"],
            *cells,
            str(row["lent_workers"]),
            *(_figure(row[name]) for name in figures),
            f"lent nothing for a while: {escape(why)}" if why else "",
        )
    for job, why in sorted(status["left_alone"].items()):
        table.add_row(job, *["-"] * 8, f"left alone: {escape(why)}")
    return table


def _shares(status: Mapping[str, Any]) -> "RenderableType":
    """Each job's share, what it has, and what it should have."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("job", "share", "has", "wanted", "workers", "wanted", box=None)
    table.add_column("samples/s predicted", justify="right")
    table.add_column("measured", justify="right")
    table.add_column("why")
    for row in status["jobs"]:
        table.add_row(row["job"], *_cells(row, status["grain_cores"]), escape(row["reason"]))
    for job, why in sorted(status["left_alone"].items()):
        table.add_row(job, *["-"] * 7, f"left alone: {escape(why)}")
    return table


def _cells(row: Mapping[str, Any], grain: float) -> list[str]:
    units = (row["share_units"], row["units"], row["wanted_units"])
    figures = ("workers", "wanted_workers", "predicted_samples_per_s", "measured_samples_per_s")
    return [
        *("-" if count is None else f"{count * grain:g} cores" for count in units),
        *(_figure(row[name]) for name in figures),
    ]


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
