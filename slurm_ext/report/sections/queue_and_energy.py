"""Queue and energy: how long jobs wait, what cluster loops did, what the work took in joules."""

from slurm_ext.report.context import ReportContext, Row
from slurm_ext.report.formatting import counted, energy, seconds
from slurm_ext.report.sections.gain import quantile
from slurm_ext.report.sections.moves import ABOUT as ABOUT_MOVES
from slurm_ext.report.sections.moves import moves
from slurm_ext.report.tables import Column, ReportTable, Section

ABOUT_METERS = (
    "GPUs: NVML's meter of each GPU that a run had; where runs shared one, divided evenly"
    " among them. Processors: RAPL's meter of the node, by the run's share of its cores."
    " Nothing is estimated: runs without a meter are not in the sums."
)
PER_DOUBLING = 8  # bins of a wait
MOST = 30

WAITS = f"""
SELECT partition, CAST(ln(1 + max(0, waited_s)) * {PER_DOUBLING / 0.6931471805599453} AS INT),
    count(*) FROM period_runs WHERE waited_s IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2"""
ENERGY = """
SELECT gpu_model, count(*), count(gpu_energy_j), sum(gpu_energy_j), count(cpu_energy_j),
    sum(cpu_energy_j), sum(iif(gpu_energy_j IS NOT NULL, gpu_hours / (1 + gpu_company), 0))
FROM period_runs GROUP BY gpu_model ORDER BY 4 DESC, 2 DESC LIMIT 30"""


def queue(context: ReportContext) -> Section:
    """Waits by partition, and the ledger of moves."""
    (made, ledger), waits = moves(context), context.rows(WAITS)
    middle = _wait(_bins(waits), 0.5)
    waited = "waits not known" if middle is None else f"median wait {seconds(middle)}"
    return Section(
        key="queue",
        title="Queue",
        answer=f"{waited}; {counted(made, 'move')} made",
        lead=(ABOUT_MOVES,),
        tables=(_waits(waits), *ledger),
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
