"""Predictions against outcomes: whether intervals hold what they promise, and still do."""

from math import log

from slurm_ext.core.stats import share
from slurm_ext.report.context import ReportContext, Row
from slurm_ext.report.formatting import change, counted, percent
from slurm_ext.report.sections.coverage import FINE, PROMISED, calibration, levels, scripts
from slurm_ext.report.sections.coverage_over_time import drift
from slurm_ext.report.sections.gain import coarser, quantile
from slurm_ext.report.tables import Chart, ChartSeries, Column, ReportTable, Section

PER_DOUBLING = 32
FARTHEST = 4 * FINE
FEWEST = 8  # outcomes; the bounds of a share are no bounds of one or two

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
        lead=() if coverage is None else tuple(lead(coverage.low, coverage.high, errors)),
        tables=(
            _errors(errors),
            calibration(reaches, runs),
            levels(context),
            scripts(context),
            drift(context),
        ),
    )


def lead(low: float, high: float, errors: list[Row]) -> list[str]:
    """Say whether intervals hold what they promise; `low`, `high`: bounds of their coverage."""
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
