"""The ledger of moves: those that cluster loops made, by kind, and the newest of them."""

from slurm_ext.report.context import ReportContext, Row, kept
from slurm_ext.report.formatting import without_jobs
from slurm_ext.report.tables import Column, ReportTable

ABOUT = (
    "A move is one thing that a loop of `dlqueue control` did to a job or a node, or in"
    " shadow would have done. One that Slurm refused was not made."
)
NEWEST = 25

# A node is no account's, and a job that still waits has a decision alone.
_WHICH = """at_s >= ?1 AND at_s < ?2 AND (?3 IS NULL
    OR EXISTS (SELECT 1 FROM runs r WHERE r.job_id = moves.job_id AND r.account = ?3)
    OR EXISTS (SELECT 1 FROM decisions d WHERE d.job_id = moves.job_id AND d.account = ?3))"""
COUNTS = f"""
SELECT kind, mode, count(*), sum(coalesce(outcome, '') LIKE 'failed%'), count(DISTINCT subject),
    sum(outcome IS NOT NULL), max(at_s)
FROM moves WHERE {_WHICH} GROUP BY 1, 2 ORDER BY 1, 2"""
LAST = f"""
SELECT at_s, kind, mode, subject, done, why, outcome FROM moves
WHERE {_WHICH} ORDER BY at_s DESC, id DESC LIMIT {NEWEST}"""


def moves(context: ReportContext) -> tuple[int, tuple[ReportTable, ReportTable]]:
    """Return the number that were made, and the tables of all and of the newest."""
    period = context.period
    which = (period.since_s, period.until_s, period.account)
    counts = context.rows(COUNTS, *which)
    made = sum(row[2] - row[3] for row in counts if row[1] == "act")
    return made, (_by_kind(counts), _last(context, context.rows(LAST, *which)))


def _by_kind(rows: list[Row]) -> ReportTable:
    columns = (
        Column("kind", "kind"),
        Column("mode", "mode"),
        Column("moves", "moves", "count"),
        Column("refused", "of them refused", "count"),
        Column("subjects", "jobs or nodes", "count"),
        Column("known", "outcome known", "count"),
        Column("last_s", "last (UTC)", "time"),
    )
    return ReportTable(key="moves", title="Moves by kind", columns=columns, rows=rows)


def _last(context: ReportContext, rows: list[Row]) -> ReportTable:
    """A pair's move names the other job, which may be anybody's."""
    if not context.whole:
        rows = [(*row[:4], *map(without_jobs, row[4:6]), row[6]) for row in rows]
    columns, cells = kept(
        (
            Column("at_s", "when (UTC)", "time"),
            Column("kind", "kind"),
            Column("mode", "mode"),
            Column("subject", "job or node", "name"),
            Column("done", "done", "name"),
            Column("why", "why", "words"),
            Column("outcome", "came of it", "words"),
        ),
        rows,
        without=set() if context.people.named else {"subject", "why", "outcome"},
    )
    return ReportTable(key="last", title="The newest moves", columns=columns, rows=cells)
