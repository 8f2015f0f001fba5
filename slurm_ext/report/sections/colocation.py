"""Slowdown by co-location: rates beside others against rates alone, as a matrix."""

from math import exp
from typing import Any

from slurm_ext.report.context import ReportContext, Row
from slurm_ext.report.formatting import counted, percent
from slurm_ext.report.tables import Column, ReportTable, Section

ABOUT = (
    "Each cell: the rate of the row's job beside the column's, compared with the row's job"
    " alone, as a geometric mean over runs that were together for half of their time."
)
MOST = 12  # of a matrix's sides
MOST_PAIRS = 2000
LISTED = 12
TOGETHER = 0.5  # of a run's time: a shorter meeting says little of its whole rate
ALONE = 0.02

SOLO = f"""
CREATE TEMP TABLE solo AS
SELECT user, job_name, avg(ln(samples_per_s)) AS rate, count(*) AS runs FROM period_runs
WHERE samples_per_s > 0 AND iif(gpus > 0, gpu_company, node_company) <= {ALONE}
GROUP BY user, job_name"""
# CROSS JOIN: in this order, so that the index of runs by job finds the partner.
PAIRS = f"""
SELECT a.user, a.job_name, p.user, p.job_name, count(*), avg(ln(a.samples_per_s) - s.rate)
FROM period_runs a
JOIN solo s ON s.user = a.user AND s.job_name = a.job_name
CROSS JOIN corunners c ON c.run = a.id
CROSS JOIN runs p ON p.job_id = c.job_id AND p.cluster = a.cluster AND p.node = a.node
    AND p.start_s < a.end_s AND p.end_s > a.start_s
WHERE a.samples_per_s > 0 AND c.overlap_s >= {TOGETHER} * a.elapsed_s
    AND iif(?, c.shared_gpus <> '', coalesce(c.shared_gpus, '') = '')
GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC LIMIT {MOST_PAIRS}"""


def pairs(context: ReportContext, *, gpu: bool) -> list[Row]:
    """(user, job name, partner's, partner's, runs, mean ln of rate beside over rate alone)."""
    return context.rows(PAIRS, gpu)


def section(context: ReportContext) -> Section:
    """A matrix of jobs that shared GPUs, and one of jobs that shared nodes."""
    context.rows("DROP TABLE IF EXISTS temp.solo")
    context.rows(SOLO)
    context.rows("CREATE INDEX temp.solo_of ON solo (user, job_name)")
    measured = [pairs(context, gpu=gpu) for gpu in (True, False)]
    tables = [
        _matrix(context, key, title, rows)
        for key, title, rows in (
            ("gpu", "Jobs on one GPU", measured[0]),
            ("node", "Jobs on one node, no GPU in common", measured[1]),
        )
    ]
    return Section(
        key="colocation",
        title="Who runs beside whom",
        answer=_answer(measured[0], "one GPU")
        or _answer(measured[1], "one node")
        or "no pair measured",
        lead=(ABOUT,),
        tables=(*tables, _pairs(context, measured)),
    )


def _pairs(context: ReportContext, measured: list[list[Row]]) -> ReportTable:
    """The pairs that met most often."""
    rows = [
        (
            context.people.script(*row[:2]),
            context.people.script(*row[2:4]),
            where,
            row[4],
            exp(row[5]),
        )
        for where, rows in zip(("GPU", "node"), measured, strict=True)
        for row in rows[:LISTED]
    ]
    columns = (
        Column("job", "job", "name"),
        Column("beside", "beside", "name"),
        Column("where", "on one"),
        Column("runs", "runs", "count"),
        Column("speed", "rate beside, of rate alone", "share"),
    )
    return ReportTable(key="pairs", title="Pairs that met most", columns=columns, rows=rows)


def _answer(rows: list[Row], where: str) -> str | None:
    runs = sum(row[4] for row in rows)
    if not runs:
        return None
    speed = exp(sum(row[4] * row[5] for row in rows) / runs)
    return f"{percent(speed)} of the solo rate on {where} ({counted(runs, 'run')})"


def _matrix(context: ReportContext, key: str, title: str, rows: list[Row]) -> ReportTable:
    """The jobs that met most; a cell is None where they did not meet."""
    met: dict[tuple[Any, Any], None] = {}  # in the order of the pairs that met most
    for row in rows:
        met |= dict.fromkeys((row[:2], row[2:4]))
    jobs = list(met)[:MOST]
    cells = {(row[:2], row[2:4]): exp(row[5]) for row in rows}
    names = [context.people.script(*job) for job in jobs]
    there = [job for job in jobs if any((job, other) in cells for other in jobs)]
    return ReportTable(
        key=key,
        title=title,
        columns=(
            Column("job", "beside →", "name"),
            *(Column(f"beside {name}", name, "share") for name in names),
        ),
        rows=[
            (context.people.script(*job), *(cells.get((job, other)) for other in jobs))
            for job in there
        ],
        heat=True,
        note=f"Measured: {counted(len(rows), 'pair')}; shown: the {len(jobs)} jobs that met most."
        if rows
        else "",
    )
