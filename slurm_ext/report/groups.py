"""The same figures per account, user, partition and GPU type."""

from typing import Any

from slurm_ext.report.asked import Asked
from slurm_ext.report.figures import quantile
from slurm_ext.report.tables import Column, Section, Table

MOST = 40
FINE = 50
DIMENSIONS = (
    ("account", "Accounts"),
    ("user", "Users"),
    ("partition", "Partitions"),
    ("gpu_model", "GPU types"),
)
LOSSES = (
    ("starved", "gpu_hours", "half of the GPU-hours waited less than"),
    ("gpu_idle", "gpu_hours", "half of the GPU-hours idle less than"),
    ("core_idle", "core_hours", "half of the core-hours idle less than"),
    ("mem_unused", "gib_hours", "half of the memory unused less than"),
)
TOTALS = {
    name: f"SELECT {name}, count(*), sum(gpu_hours), sum(core_hours),"
    " 1.0 * sum(state IN ('FAILED', 'OUT_OF_MEMORY', 'TIMEOUT', 'NODE_FAIL')) / count(*),"
    " sum(gpu_energy_j), sum(cpu_energy_j) FROM chosen"
    f" GROUP BY {name} ORDER BY sum(gpu_hours) DESC, sum(core_hours) DESC, 2 DESC LIMIT ?"
    for name, _ in DIMENSIONS
}
BINS = {
    (name, loss): f"SELECT {name}, CAST({loss} * {FINE} AS INT), sum({held}) FROM chosen"
    f" WHERE {loss} IS NOT NULL AND {held} > 0 GROUP BY 1, 2 ORDER BY 1, 2"
    for name, _ in DIMENSIONS
    for loss, held, _ in LOSSES
}


def medians(asked: Asked, dimension: str, loss: str) -> dict[Any, float | None]:
    """Of each account (user, ...): half of its hours lost less than this share."""
    bins: dict[Any, list[tuple[int, float]]] = {}
    for name, number, weight in asked.rows(BINS[dimension, loss]):
        bins.setdefault(name, []).append((number, weight))
    return {name: min(1.0, quantile(found, 0.5, 1 / FINE) or 0.0) for name, found in bins.items()}


def section(asked: Asked) -> Section:
    """One table a dimension."""
    tables = [
        _table(asked, name, title)
        for name, title in DIMENSIONS
        if name != "user" or asked.people.listed
    ]
    accounts, users = asked.row("SELECT count(DISTINCT account), count(DISTINCT user) FROM chosen")
    return Section(
        key="groups",
        title="By account, user, partition and GPU",
        answer=f"{users:,} users in {accounts:,} accounts",
        lead=("Ordered by GPU-hours, then core-hours; medians are of hours, not of runs.",),
        tables=tuple(tables),
    )


def _table(asked: Asked, dimension: str, title: str) -> Table:
    losses = [medians(asked, dimension, loss) for loss, _, _ in LOSSES]
    rows = []
    for name, runs, gpu, core, bad, gpu_j, cpu_j in asked.rows(TOTALS[dimension], MOST):
        told = asked.people.user(name) if dimension == "user" else name
        lost = (each.get(name) for each in losses)
        energy = None if gpu_j is None and cpu_j is None else (gpu_j or 0) + (cpu_j or 0)
        rows.append((told or "(not told)", runs, gpu, core, bad, *lost, energy))
    columns = (
        *(Column(dimension, title, "name"), Column("runs", "runs", "count")),
        *(Column("gpu_hours", "GPU-hours", "hours"), Column("core_hours", "core-hours", "hours")),
        Column("bad", "ended badly", "share"),
        *(Column(loss, head, "share") for loss, _, head in LOSSES),
        Column("energy_j", "energy", "energy"),
    )
    return Table(key=dimension, title=title, columns=columns, rows=rows)
