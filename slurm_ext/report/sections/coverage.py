"""Coverage of predictions: how many outcomes lie in their intervals, by level and script."""

from math import exp

from slurm_ext.core.stats import normal_reach, share
from slurm_ext.history.views.outcomes import stopped_scripts
from slurm_ext.report.context import ReportContext, Row
from slurm_ext.report.formatting import counted, percent
from slurm_ext.report.tables import Chart, ChartSeries, Column, ReportTable

PROMISED = 0.9
FINE = 50  # bins of one interval's reach
MOST_SCRIPTS = 40
LEVELS = (0.25, 0.5, 0.75, 0.8, 0.9, 0.95)

BY_LEVEL = """
SELECT level, count(*), sum(z <= 1), avg(abs(x)) FROM believed WHERE z IS NOT NULL
GROUP BY level ORDER BY 2 DESC"""
BY_SCRIPT = f"""
SELECT user, key_script, job_name, runs, inside FROM (
    SELECT d.user, d.key_script, d.job_name, max(d.id), count(*) AS runs, sum(z <= 1) AS inside
    FROM believed b CROSS JOIN decisions d ON d.id = b.decision
    WHERE z IS NOT NULL AND d.key_script IS NOT NULL GROUP BY d.user, d.key_script)
ORDER BY runs - inside DESC, runs DESC LIMIT {MOST_SCRIPTS}"""
OF_ACCOUNT = "SELECT DISTINCT user, key_script FROM decisions WHERE account = ?"


def calibration(reaches: list[Row], runs: int) -> ReportTable:
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


def levels(context: ReportContext) -> ReportTable:
    """Coverage and error by the evidence that predictions rested on."""
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


def scripts(context: ReportContext) -> ReportTable:
    """Coverage by script, the most misses first; and which ones nothing acts on now."""
    people, stopped = context.people, _stopped(context)
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


def _stopped(context: ReportContext) -> dict[tuple[str, int | None], str]:
    """Return why nothing acts on a script now, by user and key; of an account, on its own."""
    stopped = stopped_scripts(context.history.conn, context.history.path)
    account = context.period.account
    if account is None:
        return stopped
    own = set(context.rows(OF_ACCOUNT, account))
    return {script: why for script, why in stopped.items() if script in own}
