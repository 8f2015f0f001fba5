"""Data that is missing, and why: a report that hides its gaps claims too much."""

from slurm_ext.report.context import ReportContext, Row
from slurm_ext.report.formatting import counted, percent
from slurm_ext.report.tables import Column, ReportTable, Section

# What is lacking, of which runs, in how many of them, and why that may be.
GAPS = (
    (
        "rates (samples/s)",
        "1",
        "samples_per_s IS NULL",
        "the probe is off (node.probe), the job does not train with PyTorch, or it ended too early",
    ),
    (
        "use of GPUs",
        "gpus > 0",
        "gpu_idle IS NULL",
        "no NVML on the node, or MIG is on: `dlqueue doctor` there says which",
    ),
    (
        "energy of GPUs",
        "gpus > 0",
        "gpu_energy_j IS NULL",
        "GPUs before Volta have no meter; else as above",
    ),
    (
        "energy of processors",
        "1",
        "cpu_energy_j IS NULL",
        "no RAPL meter on the node, or a virtual machine",
    ),
    (
        "use of cores",
        "1",
        "core_idle IS NULL",
        "the sampler was not there: no prolog, or it was killed",
    ),
    (
        "use of memory",
        "1",
        "mem_unused IS NULL",
        "no peak from the control group, or the job did not ask for memory",
    ),
    (
        "waiting time",
        "first_of_job",
        "waited_s IS NULL",
        "the node could not ask Slurm for the submission",
    ),
    (
        "decision",
        "1",
        "decision IS NULL",
        "the advisor was off or down, the job opted out, or it has no script",
    ),
    ("account", "1", "account IS NULL", "the cluster keeps no accounts, or Slurm was not asked"),
    ("GPU type", "gpus > 0", "gpu_model IS NULL", "recorded before this was kept, or no NVML"),
    (
        "the node's own record",
        "1",
        "source = 'reconcile'",
        "its epilog did not run or its record was lost; only Slurm's word is known",
    ),
)
COUNTED = ", ".join(f"sum({of}), sum(({of}) AND ({gap}))" for _, of, gap, _ in GAPS)
OUTSIDE = "SELECT sum(end_s IS NULL), sum(end_s >= ?1) FROM runs WHERE ?2 IS NULL OR account = ?2"
# By folder: names of files have numbers of jobs.
ASIDE = """
SELECT coalesce(nullif(rtrim(source, replace(source, '/', '')), ''), source) AS place,
    count(*), max(aside_s)
FROM set_aside GROUP BY place ORDER BY 2 DESC"""
SOME = 0.005  # of the runs: less is not worth a line at the top


def section(context: ReportContext) -> Section:
    """Gaps by kind, runs outside of any calendar, records that could not be read."""
    counted = context.row(f"SELECT {COUNTED} FROM period_runs")
    rows: list[Row] = []
    for place, (what, _, _, why) in enumerate(GAPS):
        of, gap = counted[2 * place] or 0, counted[2 * place + 1] or 0
        rows.append((what, of, gap, gap / of if of else 0.0, why if gap else ""))
    share, what = max(((row[3], row[0]) for row in rows), default=(0.0, ""))
    return Section(
        key="missing",
        title="What is missing, and why",
        answer="nothing of note" if share < SOME else f"{what}: {percent(share)}",
        lead=tuple(_odd(context)),
        tables=(_gaps(rows), _aside(context)),
    )


def _odd(context: ReportContext) -> list[str]:
    """Runs that no period holds."""
    endless, future = context.row(OUTSIDE, context.now_s + 86400, context.period.account)
    remarks = []
    if future:
        remarks.append(
            f"Left out: {counted(future, 'run')} with an end more than a day in the future, by"
            " their node's clock. Compare the nodes' clocks (chrony, ntpd)."
        )
    if endless:
        remarks.append(f"Left out: {counted(endless, 'run')} without an end time.")
    return remarks


def _gaps(rows: list[Row]) -> ReportTable:
    columns = (
        Column("what", "what"),
        Column("runs", "of runs", "count"),
        Column("missing", "missing in", "count"),
        Column("share", "share", "share"),
        Column("why", "why that may be", "words"),
    )
    return ReportTable(key="gaps", title="Not measured", columns=columns, rows=rows)


def _aside(context: ReportContext) -> ReportTable:
    columns = (
        Column("source", "folder or source", "name"),
        Column("records", "records", "count"),
        Column("last_s", "last (UTC)", "time"),
    )
    note = "They lie in the state folder's aside/; set_aside in history.db says why, one by one."
    rows = context.rows(ASIDE)
    return ReportTable(
        key="aside",
        title="Records that could not be read",
        columns=columns,
        rows=rows,
        note=note if rows else "",
    )
