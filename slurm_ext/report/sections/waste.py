"""Resources that the cluster holds and does not use, and the jobs that could gain most."""

from dataclasses import dataclass

from slurm_ext.history.views.advice import job_advice
from slurm_ext.report.context import ReportContext, Row, kept
from slurm_ext.report.formatting import hours, percent
from slurm_ext.report.sections.gain import coarser, quantile
from slurm_ext.report.tables import JOB, Chart, ChartSeries, Column, ReportTable, Section

ABOUT = (
    "Each bar is the share of all hours held by runs that wasted that much: a mean would"
    " hide the few that waste most. GPUs that several jobs share count for each of them."
)
FINE = 200  # bins of a share, as counted
COARSE = 10  # of them in one bar
MOST = 20  # people and scripts


@dataclass(frozen=True, slots=True)
class Measure:
    """One kind of waste: its column of `period_runs`, its weight, and its name for people."""

    key: str
    held: str
    title: str
    unit: str
    what: str  # after "... of the time"
    short: str  # of what is lost, as a heading


MEASURES = (
    Measure(
        "starved",
        "gpu_hours",
        "Starved accelerators",
        "GPU-hours",
        "waiting for data",
        "GPU-hours starved",
    ),
    Measure(
        "gpu_idle",
        "gpu_hours",
        "GPUs held but idle",
        "GPU-hours",
        "without work on the GPU",
        "GPU-hours idle",
    ),
    Measure(
        "core_idle",
        "core_hours",
        "Idle cores",
        "core-hours",
        "of the cores unused",
        "core-hours idle",
    ),
    Measure(
        "mem_unused",
        "gib_hours",
        "Memory asked for, not used",
        "GiB-hours",
        "never touched",
        "GiB-hours unused",
    ),
)
BINS = {
    measure.key: f"SELECT min({FINE - 1}, CAST({FINE} * {measure.key} AS INT)), count(*),"
    f" sum({measure.held}), sum({measure.held} * {measure.key}) FROM period_runs"
    f" WHERE {measure.key} IS NOT NULL AND {measure.held} > 0 GROUP BY 1 ORDER BY 1"
    for measure in MEASURES
}
_LOST = ", ".join(f"sum({m.held} * {m.key})" for m in MEASURES)
_ORDER = (
    "ORDER BY max(coalesce(sum(gpu_hours * starved), 0), coalesce(sum(gpu_hours * gpu_idle), 0))"
    " DESC, sum(core_hours * core_idle) DESC, sum(gib_hours * mem_unused) DESC"
)
USERS = (
    f"SELECT user, count(*), sum(gpu_hours), {_LOST} FROM period_runs"
    f" GROUP BY user {_ORDER} LIMIT ?"
)
SCRIPTS = (
    f"SELECT user, job_name, count(*), sum(gpu_hours), {_LOST}, max(end_s), job_id FROM period_runs"
    f" GROUP BY user, job_name {_ORDER} LIMIT ?"
)


def bins(context: ReportContext, measure: Measure) -> list[Row]:
    """(bin of FINE, runs, held, lost of it) of one kind of waste."""
    return context.rows(BINS[measure.key])


def section(context: ReportContext) -> Section:
    """Four kinds of waste, then people and scripts."""
    counted = {measure.key: bins(context, measure) for measure in MEASURES}
    tables = [_distribution(measure, counted[measure.key]) for measure in MEASURES]
    return Section(
        key="waste",
        title="What the cluster wastes",
        answer=_answer(counted),
        lead=(ABOUT,),
        tables=(_summary(counted), *tables, *_people(context)),
    )


def _answer(counted: dict[str, list[Row]]) -> str:
    rows = counted["gpu_idle"] or counted["starved"]
    what = "idle" if counted["gpu_idle"] else "waited for data"
    unit = "GPU-hours"
    if not rows:
        rows, what, unit = counted["core_idle"], "idle", "core-hours"
    reserved, lost = sum(row[2] for row in rows), sum(row[3] for row in rows)
    return (
        f"{percent(lost / reserved)} of {hours(reserved)} {unit} {what}"
        if reserved
        else "not measured"
    )


def _summary(counted: dict[str, list[Row]]) -> ReportTable:
    """Totals and quantiles, in the units of each."""
    rows = []
    for measure in MEASURES:
        bins = counted[measure.key]
        reserved, lost = sum(row[2] for row in bins), sum(row[3] for row in bins)
        weights = [(row[0], row[2]) for row in bins]
        quantiles = [quantile(weights, at, 1 / FINE) for at in (0.25, 0.5, 0.75, 0.9)]
        runs = sum(row[1] for row in bins)
        rows.append((measure.title, runs, measure.unit, reserved, lost, *quantiles))
    columns = (
        Column("what", "waste"),
        Column("runs", "measured runs", "count"),
        Column("unit", "unit"),
        Column("held", "held", "hours"),
        Column("lost", "not used", "hours"),
        Column("q25", "a quarter lost less than", "share"),
        Column("median", "half", "share"),
        Column("q75", "three quarters", "share"),
        Column("q90", "nine tenths", "share"),
    )
    note = "Of the hours held, not of the runs: a long run counts for as much as it held."
    return ReportTable(
        key="totals", title="All kinds of waste", columns=columns, rows=rows, note=note
    )


def _distribution(measure: Measure, counted: list[Row]) -> ReportTable:
    reserved = sum(row[2] for row in counted)
    runs = dict(coarser([(row[0], row[1]) for row in counted], COARSE))
    width = COARSE / FINE
    weights = coarser([(row[0], row[2]) for row in counted], COARSE)
    points = [(number * width, weight / reserved) for number, weight in weights] if reserved else []
    most = sum(row[2] for row in counted if row[0] >= FINE / 2) / reserved if reserved else 0.0
    rows = [
        (number * width, (number + 1) * width, runs[number], weight, weight / reserved)
        for number, weight in weights
    ]
    return ReportTable(
        key=measure.key,
        title=measure.title,
        columns=(
            Column("from", "from", "share"),
            Column("to", "to", "share"),
            Column("runs", "runs", "count"),
            Column("held", measure.unit, "hours"),
            Column("share", "of all", "share"),
        ),
        rows=rows,
        folded=True,
        chart=Chart(
            form="bars",
            about=f"{percent(most)} of the {measure.unit} were more than half {measure.what}.",
            x=f"share {measure.what}",
            y=f"share of {measure.unit}",
            series=[ChartSeries(measure.title, points)],
            width=width,
            ticks={k / 4: percent(k / 4) for k in range(5)},
        )
        if points
        else None,
    )


def _people(context: ReportContext) -> list[ReportTable]:
    """Tables of people and scripts; none where the site names nobody."""
    if not context.people.listed:
        return []
    columns = (
        Column("runs", "runs", "count"),
        Column("gpu_hours", "GPU-hours", "hours"),
        *(Column(m.key, m.short, "hours") for m in MEASURES),
    )
    users = [(context.people.user(row[0]), *row[1:]) for row in context.rows(USERS, MOST)]
    scripts = [
        (context.people.script(*row[:2]), *row[2:-2], row[-1], _first_advice(context, row[-1]))
        for row in context.rows(SCRIPTS, MOST)
    ]
    scripts_columns, scripts = kept(
        (
            Column("script", "user and job name", "name"),
            *columns,
            Column(JOB, "newest job", "id"),
            Column("advice", "first advice on it", "words"),
        ),
        scripts,
        without=set() if context.people.named else {JOB},
    )
    return [
        ReportTable(
            key="users",
            title="People whose jobs could gain most",
            columns=(Column("user", "user", "name"), *columns),
            rows=users,
            note="Ordered by GPU-hours, then by core-hours lost. A name is no reproach: ask first.",
        ),
        ReportTable(
            key="scripts",
            title="Scripts that could gain most",
            columns=scripts_columns,
            rows=scripts,
        ),
    ]


def _first_advice(context: ReportContext, job_id: int) -> str | None:
    """Advice with the share of the training's time that it removes; None where none is due."""
    advice = job_advice(context.history, job_id)
    return None if advice is None else f"{advice['next']} ({percent(advice['share'])} of its time)"
