"""Coverage of predictions by day, week or month: models age."""

from math import exp

from slurm_ext.core.stats import share
from slurm_ext.report.context import ReportContext, Row
from slurm_ext.report.formatting import percent
from slurm_ext.report.sections.coverage import PROMISED
from slurm_ext.report.tables import Chart, ChartSeries, Column, ReportTable

LABELS = 6  # of a time axis

BY_TIME = """
SELECT strftime(?, end_s, 'unixepoch'), count(*), sum(z <= 1), avg(abs(x)), avg(x)
FROM believed WHERE z IS NOT NULL GROUP BY 1 ORDER BY min(end_s)"""


def drift(context: ReportContext) -> ReportTable:
    """Coverage by day, week or month: models age."""
    form, unit = _unit(context)
    rows = []
    for when, runs, inside, error, bias in context.rows(BY_TIME, form):
        coverage = share(inside, runs)
        if coverage is not None:
            rows.append(
                (
                    when,
                    runs,
                    coverage.value,
                    coverage.low,
                    coverage.high,
                    exp(error),
                    exp(bias),
                )
            )
    points = [(float(place), row[2]) for place, row in enumerate(rows)]
    step = 1 + (len(rows) - 1) // LABELS
    return ReportTable(
        key="drift",
        title=f"Coverage by {unit}",
        columns=(
            Column("when", f"{unit} (UTC)"),
            Column("runs", "runs", "count"),
            Column("inside", "inside the 90 % interval", "share"),
            Column("low", "at least", "share"),
            Column("high", "at most", "share"),
            Column("error", "off by a factor of", "number"),
            Column("bias", "rate achieved to predicted", "change"),
        ),
        rows=rows,
        folded=True,
        chart=Chart(
            form="lines",
            about=f"Share of outcomes inside their 90 % interval, by {unit}: {_trend(rows)}",
            x=unit,
            y="inside the interval",
            series=[ChartSeries("inside", points, low_high=[row[3:5] for row in rows])],
            ticks={float(at): _short(rows, at) for at in range(0, len(rows), step)},
            level=PROMISED,
        )
        if len(rows) > 1
        else None,
    )


def _short(rows: list[Row], at: int) -> str:
    """A day, week or month, without its year where all have the same."""
    year, label = str(rows[0][0])[:4], str(rows[at][0])
    same = all(str(row[0]).startswith(year) for row in rows)
    return label[5:].strip() if same else label


def _trend(rows: list[Row]) -> str:
    low, high = min(row[2] for row in rows), max(row[2] for row in rows)
    return f"it lay between {percent(low)} and {percent(high)}."


def _unit(context: ReportContext) -> tuple[str, str]:
    first, last = context.row("SELECT min(end_s), max(end_s) FROM period_runs")
    days = 0 if first is None else (last - first) / 86400
    if days <= 21:
        return "%Y-%m-%d", "day"
    return ("%Y, week %W", "week") if days <= 190 else ("%Y-%m", "month")
