"""The same figures per account, user, partition and GPU type.

One pass over the runs adds up each combination of the four, which are then added up by each: as
GROUP BY, twenty sorts of all runs took five times as long.
"""

from array import array
from collections.abc import Sequence
from typing import Any

from slurm_ext.report.context import ReportContext, Row
from slurm_ext.report.formatting import counted
from slurm_ext.report.sections.gain import quantile
from slurm_ext.report.tables import Column, ReportTable, Section

MOST = 40
FINE = 20  # bins of a share
WIDE = FINE + 1  # bins of one loss; the last is of what was not measured
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
TOTALS = (
    "1",
    "gpu_hours",
    "core_hours",
    "state IN ('FAILED', 'OUT_OF_MEMORY', 'TIMEOUT', 'NODE_FAIL')",
    "gpu_energy_j",
    "cpu_energy_j",
    "gpu_energy_j IS NOT NULL OR cpu_energy_j IS NOT NULL",
)
_BIN = "coalesce(min({last}, CAST({loss} * {fine} AS INT)), {fine})"
CELLS = "SELECT {} FROM period_runs".format(
    ", ".join(
        (
            *(name for name, _ in DIMENSIONS),
            *(_BIN.format(last=FINE - 1, loss=loss, fine=FINE) for loss, _, _ in LOSSES),
            *(f"coalesce({column}, 0.0)" for _, column, _ in LOSSES),
            *(f"coalesce({total}, 0)" for total in TOTALS),
        )
    )
)
_KEYS, _BINS, _HELD = len(DIMENSIONS), len(DIMENSIONS) + len(LOSSES), len(DIMENSIONS) + 8
_STARTS = tuple(WIDE * number for number in range(len(LOSSES)))
_SIZE = WIDE * len(LOSSES) + len(TOTALS)
Sums = dict[Any, "array[float]"]


def combinations(context: ReportContext) -> Sums:
    """Of each (account, user, partition, GPU): hours held by loss and bin, then TOTALS."""
    combined: Sums = {}
    first = _SIZE - len(TOTALS)
    for row in context.each(CELLS):
        sums = combined.get(row[:_KEYS])
        if sums is None:
            sums = combined[row[:_KEYS]] = array("d", bytes(8 * _SIZE))
        for start, number, gpu_s in zip(_STARTS, row[_KEYS:_BINS], row[_BINS:_HELD], strict=True):
            sums[start + number] += gpu_s
        for place, value in enumerate(row[_HELD:], first):
            sums[place] += value
    return combined


def by_one(all_sums: Sums, place: int) -> Sums:
    """The combinations added up by one of the four."""
    lone_sums: Sums = {}
    for key, sums in all_sums.items():
        have = lone_sums.setdefault(key[place], array("d", bytes(8 * _SIZE)))
        for number, value in enumerate(sums):
            have[number] += value
    return lone_sums


def medians(sums: Sequence[float]) -> list[float | None]:
    """Of each loss: half of the hours lost less than this share."""
    parts = [sums[start : start + FINE] for start in _STARTS]
    return [quantile(list(enumerate(part)), 0.5, 1 / FINE) for part in parts]


def section(context: ReportContext) -> Section:
    """One table a dimension."""
    sums = combinations(context)
    groups = [by_one(sums, place) for place in range(len(DIMENSIONS))]
    accounts, users = (len(group.keys() - {None}) for group in groups[:2])
    tables = [
        _table(context, name, title, group)
        for (name, title), group in zip(DIMENSIONS, groups, strict=True)
        if name != "user" or context.people.listed
    ]
    return Section(
        key="groups",
        title="By account, user, partition and GPU",
        answer=f"{counted(users, 'user')} in {counted(accounts, 'account')}",
        lead=("Ordered by GPU-hours, then core-hours; medians are of hours, not of runs.",),
        tables=tuple(tables),
    )


def _table(context: ReportContext, dimension: str, title: str, groups: Sums) -> ReportTable:
    rows = [_row(name, sums) for name, sums in groups.items()]
    rows.sort(key=lambda row: (-row[2], -row[3], -row[1]))
    columns = (
        Column(dimension, title, "name"),
        Column("runs", "runs", "count"),
        Column("gpu_hours", "GPU-hours", "hours"),
        Column("core_hours", "core-hours", "hours"),
        Column("bad", "ended badly", "share"),
        *(Column(loss, head, "share") for loss, _, head in LOSSES),
        Column("energy_j", "energy", "energy"),
    )
    note = f"The first {MOST} of {len(rows):,}." if len(rows) > MOST else ""
    shown = [(_told(context, dimension, row[0]), *row[1:]) for row in rows[:MOST]]
    return ReportTable(key=dimension, title=title, columns=columns, rows=shown, note=note)


def _row(name: Any, sums: "array[float]") -> Row:
    runs, gpu, core, bad, gpu_j, cpu_j, measured = sums[-len(TOTALS) :]
    energy = gpu_j + cpu_j if measured else None
    return (name, int(runs), gpu, core, bad / runs, *medians(sums), energy)


def _told(context: ReportContext, dimension: str, name: Any) -> str:
    shown = context.people.user(name) if dimension == "user" else name
    return shown or "(not told)"
