"""Predictions against outcomes: whether intervals hold what they promise, and still do."""

from math import exp, log

from slurm_ext.core.stats import normal_reach, share
from slurm_ext.history.views.outcomes import stopped_scripts
from slurm_ext.report.context import ReportContext, Row
from slurm_ext.report.formatting import change, counted, percent
from slurm_ext.report.gain import coarser, quantile
from slurm_ext.report.tables import Chart, ChartSeries, Column, ReportTable, Section

PROMISED = 0.9
PER_DOUBLING = 32
FINE = 50  # bins of one interval's reach
FARTHEST = 4 * FINE
FEWEST = 8  # outcomes; the bounds of a share are no bounds of one or two
LABELS = 6  # of a time axis
MOST_SCRIPTS = 40
LEVELS = (0.25, 0.5, 0.75, 0.8, 0.9, 0.95)

# x: ln(achieved / predicted); z: the same in reaches of its interval, which is symmetric in ln.
BELIEVED = """
CREATE TEMP TABLE believed AS
SELECT decision, level, end_s, x, abs(x) / nullif(reach, 0) AS z FROM (
    SELECT decision, level, end_s, ln(achieved / predicted) AS x,
        ln(high / nullif(low, 0)) / 2 AS reach
    FROM outcomes WHERE +run IN (SELECT id FROM period_runs) AND achieved > 0
        AND before_samples_per_s > 0 AND after_samples_per_s > 0)
WHERE x IS NOT NULL"""
ERRORS = f"""
SELECT CAST(floor(x * {PER_DOUBLING / log(2)}) AS INT), count(*) FROM believed
GROUP BY 1 ORDER BY 1"""
REACHES = f"""
SELECT min({FARTHEST}, CAST(z * {FINE} AS INT)), count(*) FROM believed WHERE z IS NOT NULL
GROUP BY 1 ORDER BY 1"""
BY_LEVEL = """
SELECT level, count(*), sum(z <= 1), avg(abs(x)) FROM believed WHERE z IS NOT NULL
GROUP BY level ORDER BY 2 DESC"""
BY_SCRIPT = f"""
SELECT user, key_script, job_name, runs, inside FROM (
    SELECT d.user, d.key_script, d.job_name, max(d.id), count(*) AS runs, sum(z <= 1) AS inside
    FROM believed b CROSS JOIN decisions d ON d.id = b.decision
    WHERE z IS NOT NULL AND d.key_script IS NOT NULL GROUP BY d.user, d.key_script)
ORDER BY runs - inside DESC, runs DESC LIMIT {MOST_SCRIPTS}"""
BY_TIME = """
SELECT strftime(?, end_s, 'unixepoch'), count(*), sum(z <= 1), avg(abs(x)), avg(x)
FROM believed WHERE z IS NOT NULL GROUP BY 1 ORDER BY min(end_s)"""


def section(context: ReportContext) -> Section:
    """Error, calibration, coverage by evidence and over time."""
    context.rows("DROP TABLE IF EXISTS temp.believed")
    context.rows(BELIEVED)
    reaches = context.rows(REACHES)
    runs, inside = sum(many for _, many in reaches), sum(m for at, m in reaches if at < FINE)
    coverage = share(inside, runs)
    errors = context.rows(ERRORS)
    return Section(
        key="predictions",
        title="Predictions against outcomes",
        answer=(
            "no outcome of a prediction yet"
            if coverage is None
            else f"{percent(coverage.value)} inside the 90 % interval ({counted(runs, 'outcome')})"
        ),
        lead=() if coverage is None else tuple(_lead(coverage.low, coverage.high, errors)),
        tables=(
            _errors(errors),
            _calibration(reaches, runs),
            _levels(context),
            _scripts(context),
            _drift(context),
        ),
    )


def _lead(low: float, high: float, errors: list[Row]) -> list[str]:
    if sum(many for _, many in errors) < FEWEST:
        verdict = f"too few outcomes to tell: {FEWEST} are wanted"
    elif low > PROMISED:
        verdict = "more than promised: the intervals are wider than they need be"
    elif high < PROMISED:
        verdict = "less than promised: the intervals are too narrow"
    else:
        verdict = "as promised"
    quarter, half, three = (quantile(errors, at, 1 / PER_DOUBLING) for at in (0.25, 0.5, 0.75))
    spread = (
        f" Half of the outcomes differ from what was predicted by {change(2**quarter)} to"
        f" {change(2**three)}, the middle one by {change(2**half)}."
        if quarter is not None and half is not None and three is not None
        else ""
    )
    return [
        (
            "Every decision says, before the job runs, within which bounds nine in ten outcomes"
            f" will fall. {percent(low)} to {percent(high)} of all such outcomes did, which is"
            f" {verdict}.{spread}"
        )
    ]


def _errors(errors: list[Row]) -> ReportTable:
    total = sum(many for _, many in errors)
    bars = coarser([(at, float(many)) for at, many in errors], 4)
    width = 4 / PER_DOUBLING
    points = [(at * width, many / total) for at, many in bars]
    return ReportTable(
        key="errors",
        title="Rate achieved, compared with the rate predicted",
        columns=(
            Column("from", "from", "change"),
            Column("to", "to", "change"),
            Column("runs", "runs", "count"),
            Column("share", "of all", "share"),
        ),
        rows=[(2 ** (a * width), 2 ** ((a + 1) * width), m, m / total) for a, m in bars],
        folded=True,
        chart=Chart(
            form="bars",
            about="How far outcomes were from what was predicted; 1x is as predicted.",
            x="rate achieved / rate predicted",
            y="share of runs",
            series=[ChartSeries("runs", points)],
            width=width,
            ticks={k / 2: f"{2.0 ** (k / 2):.2g}x" for k in range(-12, 13)},
        )
        if points
        else None,
    )


def _calibration(reaches: list[Row], runs: int) -> ReportTable:
    """Coverage of an interval of each level, by the normal's quantiles."""
    wide = normal_reach(PROMISED)
    rows = []
    for level in LEVELS:
        limit = FINE * normal_reach(level) / wide
        inside = sum(many * min(1.0, max(0.0, limit - at)) for at, many in reaches)
        coverage = share(inside, runs)
        if coverage is not None:
            rows.append((level, coverage.value, coverage.low, coverage.high))
    return ReportTable(
        key="calibration",
        title="Calibration",
        columns=(
            Column("promised", "promised", "share"),
            Column("found", "found", "share"),
            Column("low", "at least", "share"),
            Column("high", "at most", "share"),
        ),
        rows=rows,
        folded=True,
        note="Narrower and wider intervals are those of a normal error with the same 90 % bounds.",
        chart=Chart(
            form="lines",
            about="Share of outcomes inside an interval against the share that it promises;"
            " on the diagonal it keeps its word, below it promises too much.",
            x="promised",
            y="found inside",
            series=[ChartSeries("outcomes", [r[:2] for r in rows], low_high=[r[2:] for r in rows])],
            ticks={k / 4: percent(k / 4) for k in range(5)},
            diagonal=True,
        )
        if rows
        else None,
    )


def _levels(context: ReportContext) -> ReportTable:
    rows = [
        (level, runs, inside / runs, exp(error))
        for level, runs, inside, error in context.rows(BY_LEVEL)
    ]
    return ReportTable(
        key="evidence",
        title="By what a prediction rested on",
        columns=(
            Column("level", "evidence"),
            Column("runs", "runs", "count"),
            Column("inside", "inside the 90 % interval", "share"),
            Column("error", "off by a factor of, on geometric average", "number"),
        ),
        rows=rows,
    )


def _scripts(context: ReportContext) -> ReportTable:
    """Coverage by script, the most misses first; and which ones nothing acts on now."""
    people, stopped = context.people, stopped_scripts(context.history.conn, context.history.path)
    rows = [
        (people.script(user, name), runs, inside / runs, stopped.get((user, script), ""))
        for user, script, name, runs, inside in context.rows(BY_SCRIPT)
        if people.listed
    ]
    return ReportTable(
        key="scripts",
        title="By script",
        columns=(
            Column("script", "script", "name"),
            Column("runs", "runs", "count"),
            Column("inside", "inside the 90 % interval", "share"),
            Column("stopped", "left as written, because", "words"),
        ),
        rows=rows,
        note=f"{counted(len(stopped), 'script')} left as written until a run is as predicted."
        if stopped
        else "",
    )


def _drift(context: ReportContext) -> ReportTable:
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
