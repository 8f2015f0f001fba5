"""The decision ledger: how many were decided, in which mode, why, and the newest of them."""

from slurm_ext.report.context import ReportContext, Row, kept
from slurm_ext.report.formatting import counted
from slurm_ext.report.tables import JOB, Column, ReportTable, Section

ABOUT = (
    "Only mode act changes jobs; shadow and advise say what would have been done. Sharing a GPU has"
    " a mode of its own."
)
MOST_REASONS = 25
NEWEST = 25
_WHICH = "decided_s >= ? AND decided_s < ? AND (? IS NULL OR account = ?)"
# A part of a GPU is given in a mode of its own, also to a job that is left otherwise.
_PART = "coalesce(json_extract(sharing, '$.done'), 0)"

COUNTS = f"""
SELECT mode, action, holdout, count(*), sum(state = 'claimed'),
    sum(NOT holdout AND (mode = 'act' AND action = 'change' OR {_PART}))
FROM decisions WHERE {_WHICH} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
REASONS = f"""
SELECT reason, action, count(*) FROM (
    SELECT action, iif(instr(reason, ':') > 0, substr(reason, 1, instr(reason, ':') - 1), reason)
        AS reason
    FROM decisions WHERE {_WHICH})
GROUP BY 1, 2 ORDER BY 3 DESC LIMIT {MOST_REASONS}"""
SHARED = f"""
SELECT json_extract(sharing, '$.mode'), json_extract(sharing, '$.share'),
    json_extract(sharing, '$.done'), holdout, count(*)
FROM decisions WHERE sharing IS NOT NULL AND {_WHICH} GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""
LAST = f"""
SELECT decided_s, job_id, user, job_name, mode, action, holdout, {_PART}, before_cpus, after_cpus,
    before_workers, after_workers, before_samples_per_s, after_samples_per_s,
    (SELECT avg(coalesce(l.whole_samples_per_s / nullif(l.ranks, 0), l.samples_per_s))
        FROM runs r JOIN loader_runs l ON l.run = r.id
        WHERE r.decision = decisions.token), reason
FROM decisions WHERE {_WHICH} ORDER BY id DESC LIMIT {NEWEST}"""


def section(context: ReportContext) -> Section:
    """Counts, reasons and the newest decisions."""
    period = context.period
    which = (period.since_s, period.until_s, period.account, period.account)
    counts = context.rows(COUNTS, *which)
    total = sum(row[3] for row in counts)
    changed = sum(row[5] for row in counts)
    return Section(
        key="ledger",
        title="What was decided",
        answer=f"{counted(total, 'decision')}, {counted(changed, 'job')} changed"
        if total
        else "no decision",
        lead=(ABOUT,),
        tables=(
            _counts([(*row[:2], "yes" if row[2] else "no", *row[3:]) for row in counts]),
            _reasons([tuple(row) for row in context.rows(REASONS, *which)]),
            _shared(context.rows(SHARED, *which)),
            _last(context, context.rows(LAST, *which)),
        ),
    )


def _counts(rows: list[tuple[object, ...]]) -> ReportTable:
    columns = (
        Column("mode", "mode"),
        Column("action", "decided"),
        Column("holdout", "control group"),
        Column("decisions", "decisions", "count"),
        Column("claimed", "became a job", "count"),
        Column("changed", "changed", "count"),
    )
    return ReportTable(key="counts", title="Decisions by mode", columns=columns, rows=rows)


def _reasons(rows: list[tuple[object, ...]]) -> ReportTable:
    columns = (
        Column("reason", "reason", "words"),
        Column("action", "decided"),
        Column("decisions", "decisions", "count"),
    )
    return ReportTable(key="reasons", title="Why", columns=columns, rows=rows)


def _shared(rows: list[Row]) -> ReportTable:
    columns = (
        Column("mode", "mode"),
        Column("share", "should share"),
        Column("done", "asked for a part"),
        Column("holdout", "control group"),
        Column("decisions", "decisions", "count"),
    )
    lines = [(row[0], *("yes" if flag else "no" for flag in row[1:4]), row[4]) for row in rows]
    note = "How fast they ran beside others: see who runs beside whom." if rows else ""
    return ReportTable(key="sharing", title="Sharing a GPU", columns=columns, rows=lines, note=note)


def _last(context: ReportContext, rows: list[tuple[object, ...]]) -> ReportTable:
    lines = [(*row[:5], _done(*row[4:8]), *row[8:]) for row in rows]
    columns, cells = kept(
        (
            Column("decided_s", "when (UTC)", "time"),
            Column(JOB, "job", "id"),
            Column("user", "user", "name"),
            Column("job_name", "name", "name"),
            Column("mode", "mode"),
            Column("done", "done"),
            Column("before_cpus", "CPUs", "count"),
            Column("after_cpus", "then", "count"),
            Column("before_workers", "workers", "count"),
            Column("after_workers", "then", "count"),
            Column("before", "predicted as written", "rate"),
            Column("after", "predicted as changed", "rate"),
            Column("achieved", "measured", "rate"),
            Column("reason", "why", "words"),
        ),
        lines,
        without=set() if context.people.named else {JOB, "user", "job_name"},
    )
    return ReportTable(key="last", title="The newest decisions", columns=columns, rows=cells)


def _done(mode: object, action: object, holdout: object, part: object) -> str:
    if holdout:
        return "control"
    done = {"changed": (mode, action) == ("act", "change"), "given part of a GPU": part}
    return ", ".join(what for what, is_so in done.items() if is_so) or "left"
