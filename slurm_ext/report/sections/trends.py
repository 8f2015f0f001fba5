"""Section on months: what was held, and how much of it was at work."""

from collections.abc import Iterable, Mapping, Sequence

from slurm_ext.report.context import ReportContext, Row
from slurm_ext.report.formatting import counted, hours, percent
from slurm_ext.report.tables import Chart, ChartSeries, Column, ReportTable, Section

MOST = 36  # months: the newest
TICKS = 6
SHARES = (
    ("gpu", "gpu_idle", "gpu_hours", "GPUs at work"),
    ("fed", "starved", "gpu_hours", "accelerators fed"),
    ("cores", "core_idle", "core_hours", "cores at work"),
    ("memory", "mem_unused", "gib_hours", "memory in use"),
)
MONTH = Column("month", "month")
HELD = (Column("gpu_hours", "GPU-hours", "hours"), Column("core_hours", "core-hours", "hours"))
_USED = ", ".join(
    f"sum({whole} * (1 - {loss})) / nullif(sum(iif({loss} IS NULL, NULL, {whole})), 0)"
    for _, loss, whole, _ in SHARES
)
MONTHS = f"""
SELECT strftime('%Y-%m', end_s, 'unixepoch') AS month, count(*), sum(gpu_hours), sum(core_hours),
    {_USED} FROM period_runs WHERE month IS NOT NULL GROUP BY 1 ORDER BY 1 DESC LIMIT {MOST}"""
NONE: Row = (0, 0.0, 0.0, *(None for _ in SHARES))


def section(context: ReportContext) -> Section:
    """Two plots with their tables, a row a month."""
    by_month = {month: tuple(values) for month, *values in context.rows(MONTHS)}
    rows = [(month, *by_month.get(month, NONE)) for month in calendar(by_month)]
    return Section(
        key="trends",
        title="Month by month",
        answer=_answer(rows),
        lead=("By the month in which a run ended (UTC); the last one may not be over.",),
        tables=(_held(rows), _at_work(rows)),
    )


def calendar(months: Iterable[str]) -> list[str]:
    """The newest MOST months from the first of these to the last, without a gap."""
    places = [place(month) for month in months]
    if not places:
        return []
    shown = range(max(min(places), max(places) - MOST + 1), max(places) + 1)
    return [f"{at // 12:04d}-{at % 12 + 1:02d}" for at in shown]


def place(month: str) -> int:
    """Number of a month (`2026-01`), on a plot too."""
    year, number = month.split("-")
    return 12 * int(year) + int(number) - 1


def ticks(months: Sequence[str]) -> Mapping[float, str]:
    """At most TICKS names on a plot's axis."""
    return {float(place(month)): month for month in months[:: -(-len(months) // TICKS) or 1]}


def _answer(rows: Sequence[Row]) -> str:
    """The first share that two months tell, in the first and in the last of them."""
    for at, (*_, name) in enumerate(SHARES, 4):
        values = [row[at] for row in rows if row[at] is not None]
        if len(values) > 1:
            return f"{name}: {percent(values[0])}, then {percent(values[-1])}"
    return counted(len(rows), "month")


def _held(rows: Sequence[Row]) -> ReportTable:
    """GPU-hours are drawn; core-hours where there are none."""
    at = 2 if any(row[2] for row in rows) else 3
    unit, most = HELD[at - 2].head, max((row[at] or 0.0 for row in rows), default=0.0)
    chart = Chart(
        form="bars",
        about=f"At most {hours(most)} {unit} in a month.",
        x="",
        y=unit,
        series=[ChartSeries(unit, [(place(row[0]) - 0.4, row[at] or 0.0) for row in rows])],
        width=0.8,
        ticks=ticks([row[0] for row in rows]),
        shares=False,
    )
    return ReportTable(
        key="held",
        title="What was held",
        columns=(MONTH, Column("runs", "runs", "count"), *HELD),
        rows=[row[:4] for row in rows],
        folded=True,
        chart=chart if rows else None,
    )


def _at_work(rows: Sequence[Row]) -> ReportTable:
    places = [(float(place(row[0])), row) for row in rows]
    nan = float("nan")
    series = [
        ChartSeries(name, [(x, nan if row[at] is None else row[at]) for x, row in places])
        for at, (*_, name) in enumerate(SHARES, 4)
        if any(row[at] is not None for row in rows)
    ]
    chart = Chart(
        form="lines",
        about=f"Of the hours that were held, and measured: {', '.join(s.name for s in series)}.",
        x="",
        y="share of hours",
        series=series,
        ticks=ticks([row[0] for row in rows]),
        most=1.0,
    )
    return ReportTable(
        key="at_work",
        title="How much of it was at work",
        columns=(MONTH, *(Column(key, name, "share") for key, *_, name in SHARES)),
        rows=[(row[0], *row[4:]) for row in rows],
        folded=True,
        chart=chart if series else None,
    )
