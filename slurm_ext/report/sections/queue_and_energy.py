"""Queue and energy: how long jobs wait, what cluster loops did, what the work took in joules."""

from slurm_ext.report.context import ReportContext, Row, kept
from slurm_ext.report.formatting import counted, energy, seconds
from slurm_ext.report.sections.gain import quantile
from slurm_ext.report.tables import Column, ReportTable, Section

ABOUT_MOVES = (
    "A move is one thing that a loop of `dlqueue control` did to a job or a node, or in"
    " shadow would have done."
)
ABOUT_METERS = (
    "GPUs: NVML's meter of each GPU that a run had; where runs shared one, divided evenly"
    " among them. Processors: RAPL's meter of the node, by the run's share of its cores."
    " Nothing is estimated: runs without a meter are not in the sums."
)
PER_DOUBLING = 8  # bins of a wait
NEWEST = 25
MOST = 30

WAITS = f"""
SELECT partition, CAST(ln(1 + max(0, waited_s)) * {PER_DOUBLING / 0.6931471805599453} AS INT),
    count(*) FROM period_runs WHERE waited_s IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2"""
MOVES = """
SELECT kind, mode, count(*), count(DISTINCT subject), sum(outcome IS NOT NULL), max(at_s)
FROM moves WHERE at_s >= ? AND at_s < ? GROUP BY 1, 2 ORDER BY 1, 2"""
LAST = f"""
SELECT at_s, kind, mode, subject, done, why, outcome FROM moves
WHERE at_s >= ? AND at_s < ? ORDER BY at_s DESC, id DESC LIMIT {NEWEST}"""
ENERGY = """
SELECT gpu_model, count(*), count(gpu_energy_j), sum(gpu_energy_j), count(cpu_energy_j),
    sum(cpu_energy_j), sum(iif(gpu_energy_j IS NOT NULL, gpu_hours / (1 + gpu_company), 0))
FROM period_runs GROUP BY gpu_model ORDER BY 4 DESC, 2 DESC LIMIT 30"""


def queue(context: ReportContext) -> Section:
    """Waits by partition, and the ledger of moves."""
    period = (context.period.since_s, context.period.until_s)
    counts, waits = context.rows(MOVES, *period), context.rows(WAITS)
    acted = sum(row[2] for row in counts if row[1] == "act")
    all_bins = _bins(waits)
    middle = _wait(all_bins, 0.5)
    waited = "waits not known" if middle is None else f"median wait {seconds(middle)}"
    return Section(
        key="queue",
        title="Queue",
        answer=f"{waited}; {counted(acted, 'move')} made",
        lead=(ABOUT_MOVES,),
        tables=(_waits(waits), _moves(counts), _last(context, context.rows(LAST, *period))),
    )


def _bins(rows: list[Row]) -> list[tuple[int, float]]:
    counts: dict[int, float] = {}
    for _, number, many in rows:
        counts[number] = counts.get(number, 0.0) + many
    return sorted(counts.items())


def _wait(bins: list[tuple[int, float]], at: float) -> float | None:
    wait_s = quantile(bins, at, 1 / PER_DOUBLING)
    return None if wait_s is None else max(0.0, 2.0**wait_s - 1)


def _waits(rows: list[Row]) -> ReportTable:
    by_partition: dict[str | None, list[Row]] = {}
    for row in rows:
        by_partition.setdefault(row[0], []).append(row)
    lines = [
        (name, sum(r[2] for r in part), *(_wait(_bins(part), at) for at in (0.5, 0.9, 0.99)))
        for name, part in by_partition.items()
    ]
    lines.sort(key=lambda row: -row[1])
    columns = (
        Column("partition", "partition", "name"),
        Column("runs", "runs", "count"),
        Column("median", "half waited less than", "seconds"),
        Column("p90", "nine tenths", "seconds"),
        Column("p99", "99 %", "seconds"),
    )
    return ReportTable(key="waits", title="Waiting for a start", columns=columns, rows=lines[:MOST])


def _moves(rows: list[Row]) -> ReportTable:
    columns = (
        Column("kind", "kind"),
        Column("mode", "mode"),
        Column("moves", "moves", "count"),
        Column("subjects", "jobs or nodes", "count"),
        Column("known", "outcome known", "count"),
        Column("last_s", "last (UTC)", "time"),
    )
    return ReportTable(key="moves", title="Moves by kind", columns=columns, rows=rows)


def _last(context: ReportContext, rows: list[Row]) -> ReportTable:
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


def power(context: ReportContext) -> Section:
    """Energy where it was measured, by GPU type; the meters are named."""
    rows = context.rows(ENERGY)
    gpus, cpus = (sum(row[place] or 0.0 for row in rows) for place in (3, 5))
    runs = sum(row[2] for row in rows), sum(row[4] for row in rows)
    lines = [
        (
            row[0] or "(no GPU, or not told)",
            row[1],
            row[2],
            row[3],
            row[3] / row[6] / 3600 if row[3] and row[6] else None,
            row[4],
            row[5],
        )
        for row in rows
    ]
    columns = (
        Column("gpu_model", "GPU", "name"),
        Column("runs", "runs", "count"),
        Column("gpu_runs", "measured by NVML", "count"),
        Column("gpu_energy_j", "energy of GPUs", "energy"),
        Column("gpu_watts", "watts a GPU", "number"),
        Column("cpu_runs", "measured by RAPL", "count"),
        Column("cpu_energy_j", "of processors, by cores", "energy"),
    )
    return Section(
        key="energy",
        title="Energy",
        answer=f"{energy(gpus + cpus)} measured" if sum(runs) else "not measured",
        lead=(ABOUT_METERS,),
        tables=(ReportTable(key="models", title="Energy by GPU", columns=columns, rows=lines),),
    )
