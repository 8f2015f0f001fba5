"""Section on savings, in hours and, where the site has prices, in money."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from slurm_ext.core.settings.prices import hour_of
from slurm_ext.core.stats import FEWEST
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.views.savings import (
    CORE_HOURS,
    GPU_HOURS,
    Groups,
    Resource,
    Saving,
    priced,
    saving,
    sums_by_month,
    total,
)
from slurm_ext.report.context import Prices, ReportContext, Row
from slurm_ext.report.formatting import hours
from slurm_ext.report.sections import trends
from slurm_ext.report.tables import Chart, ChartSeries, Column, ReportTable, Section

PRICE = "gpu_hour_price"  # an SQL function
HOW = (
    "What changed jobs would have held as written, less what they held: at the control group's"
    " speed, each weighed by its hours, on the cores that it asked for. The interval is Welch's,"
    " 95 %. Jobs whose rate nobody measured are not counted."
)
ENDS = (
    Column("jobs", "changed jobs", "count"),
    Column("saved", "saved", "hours"),
    Column("low", "at least", "hours"),
    Column("high", "at most", "hours"),
)
COSTS = """
SELECT gpu_model, sum(gpu_hours), sum(gpu_hours / (1 + gpu_company)),
    sum(gpu_hours / (1 + gpu_company) * gpu_idle), sum(core_hours), sum(core_hours * core_idle)
FROM period_runs GROUP BY gpu_model ORDER BY 3 DESC"""


@dataclass(frozen=True, slots=True)
class Measured:
    """Savings of a resource, in all and by month."""

    name: str
    saved: Saving
    months: Mapping[str, Groups]


def measured(context: ReportContext) -> list[Measured]:
    """Money, GPU-hours and core-hours, each where enough was measured. Raises HistoryError."""
    prices = context.prices
    sources = {"GPU-hours": GPU_HOURS, "core-hours": CORE_HOURS}
    if prices.known:
        in_money = priced(f"coalesce({PRICE}(c.gpu_model), 0)", prices.core_hour)
        sources = {prices.currency: in_money, **sources}
    by_month = {name: _months(context, resource) for name, resource in sources.items()}
    savings = {name: saving(total(months.values())) for name, months in by_month.items()}
    return [
        Measured(name, saved, by_month[name])
        for name, saved in savings.items()
        if saved and saved.held
    ]


def _months(context: ReportContext, resource: Resource) -> dict[str, Groups]:
    prices, conn = context.prices, context.history.conn
    conn.create_function(PRICE, 1, lambda model: hour_of(model, prices.gpus), deterministic=True)
    with explaining(context.history.path):
        return sums_by_month(conn, resource)


def section(context: ReportContext) -> Section:
    """Hours and money saved, in all and by month, and what everything cost."""
    savings = measured(context)
    rows = [(saving.name, saving.saved.held, *_ends(saving.saved)) for saving in savings]
    return Section(
        key="saved",
        title="What was saved",
        answer=_answer(rows),
        lead=tuple(_lead(context.prices, rows)),
        tables=(_saved(rows), _by_month(savings), *_costs(context)),
    )


def _lead(prices: Prices, rows: Sequence[Row]) -> Iterator[str]:
    """The method, and for what too little was measured."""
    models = {row[0] for row in rows}
    if rows:
        yield HOW
    lacking = prices.currency if rows and prices.known else "anything"
    if lacking not in models and (prices.known or not rows):
        yield (
            f"Nothing is claimed of {lacking}: {FEWEST} jobs of each group are wanted, more where"
            " a few hold most of the hours."
        )


def _answer(rows: Sequence[Row]) -> str:
    """Of what matters most: money, else GPU-hours, else core-hours."""
    if not rows:
        return "not measured"
    name, _, _, value, low, high = rows[0]
    return f"{hours(value)} {name} ({hours(low)} to {hours(high)})"


def _saved(rows: Sequence[Row]) -> ReportTable:
    columns = (
        Column("what", "of"),
        Column("held", "changed jobs held", "hours"),
        *ENDS,
    )
    note = "Below 0 is a loss; an interval that holds 0 may be chance." if rows else ""
    return ReportTable(key="saved", title="In all", columns=columns, rows=rows, note=note)


def _by_month(savings: Sequence[Measured]) -> ReportTable:
    """The months of what matters most."""
    shown = savings[0] if savings else Measured("", Saving(0, 0, 0, 0, 0), {})
    control = total(shown.months.values())[1]
    had = {month: saving((changed, control)) for month, (changed, _) in shown.months.items()}
    rows = [(month, *_ends(had.get(month))) for month in trends.calendar(had)]
    unit = shown.name
    return ReportTable(
        key="months",
        title=f"By month{', ' * bool(unit)}{unit}",
        columns=(trends.MONTH, *ENDS),
        rows=rows,
        note=f"Each month's jobs against the period's control group; {FEWEST} at least."
        * bool(rows),
        folded=True,
        chart=_chart(rows, unit) if any(had.values()) else None,
    )


def _ends(had: Saving | None) -> Row:
    return (None,) * 4 if had is None else (had.jobs, had.value, had.low, had.high)


def _chart(rows: Sequence[Row], unit: str) -> Chart:
    nan = float("nan")
    drawn = [
        (float(trends.place(month)), *(nan if v is None else v for v in ends))
        for month, _, *ends in rows
    ]
    points, bounds = [(x, y) for x, y, *_ in drawn], [(low, high) for *_, low, high in drawn]
    series = ChartSeries("saved", points, bounds)
    return Chart(
        form="lines",
        about=f"{unit} saved in each month, with its 95 % interval.",
        x="",
        y=unit,
        series=[series],
        ticks=trends.ticks([row[0] for row in rows]),
        level=0.0,
        level_name="nothing saved",
        shares=False,
    )


def _costs(context: ReportContext) -> list[ReportTable]:
    """Costs of all runs by type of GPU; nothing without prices."""
    prices = context.prices
    if not prices.known:
        return []
    rows = [_cost(prices, *row) for row in context.rows(COSTS)]
    unknown = sum(row[1] or 0.0 for row in rows if row[2] is None)
    note = f"report.gpu_hour_prices has none for {hours(unknown)} GPU-hours." if unknown else ""
    columns = (
        Column("gpu_model", "GPU", "name"),
        Column("gpu_hours", "GPU-hours", "hours"),
        Column("price", f"an hour of it ({prices.currency})", "money"),
        Column("cost", f"cost with its cores ({prices.currency})", "money"),
        Column("idle", f"of it idle ({prices.currency})", "money"),
    )
    title = "What the runs cost"
    return [ReportTable(key="cost", title=title, columns=columns, rows=rows, note=note)]


def _cost(prices: Prices, model: str | None, *hours: float | None) -> Row:
    _, gpus, idle, cores, core_idle = (value or 0.0 for value in hours)
    hour = hour_of(model, prices.gpus) if hours[0] else None
    cost = gpus * (hour or 0.0) + cores * prices.core_hour
    lost = idle * (hour or 0.0) + core_idle * prices.core_hour
    name = model or ("type not known" if hours[0] else "none")
    return (name, hours[0], hour, cost, lost)
