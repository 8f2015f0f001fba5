"""The table for people, as Markdown."""

import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from contrib.bench.campaign.faults.fault import Fault
from contrib.bench.campaign.row import Row

_HEAD = (
    "fault",
    "submitted",
    "refused by Slurm",
    "rejected",
    "drained",
    "changed wrongly",
    "runs",
    "lost",
    "doubled",
    "wrong end",
    "set aside",
    "longest hold ms",
    "waits in a period",
    "longest sbatch s",
    "recovery s",
    "commit",
)


def page(faults: Sequence[Fault], rows: Mapping[str, Row], kept: Mapping[str, Any]) -> str:
    """The page: how it was measured, the table, and what each row that missed names."""
    commits = sorted({str(kept[name]["commit"]) for name in rows})
    loads = [kept[name]["load"] for name in rows if "load" in kept[name]] or [0.0]
    lines = [
        "# The fault campaign",
        "",
        "Written by `python -m contrib.bench.campaign`; do not edit. One fault at a time on a real",
        "Slurm of four hosts with everything on. Columns are derived from Slurm's accounting,",
        "queue and log, and from the history. *Waits in a period*: how often slurmctld waited for",
        "a whole deadline within one breaker period, at most.",
        "",
        f"Measured at {', '.join(commits)}, on {os.cpu_count()} cores, {platform.machine()}.",
        f"Before a row began, {min(loads):.1f} to {max(loads):.1f} processes ran or waited there",
        "(mean of a minute): its times are bounds from above where that is more than its cores.",
        "",
        f"| {' | '.join(_HEAD)} |",
        f"|{'---|' * len(_HEAD)}",
    ]
    table = [
        _line(rows[fault.name], fault.what, str(kept[fault.name]["commit"]))
        for fault in faults
        if fault.name in rows
    ]
    return "\n".join([*lines, *table, "", *_missed(rows), ""])


def _line(row: Row, what: str, commit: str) -> str:
    cells = [
        what,
        row.submitted,
        row.refused,
        *(_bold(len(found)) for found in (row.rejected, row.drained, row.changed)),
        f"{row.runs}" + (f", {row.running} not over" if row.running else ""),
        *(_bold(len(found)) for found in (row.lost, row.doubled, row.otherwise)),
        f"{row.aside}"
        + (f", {row.aside_unexplained} without reason" if row.aside_unexplained else ""),
        f"{1000 * row.held_s:.0f}"
        + (f", {row.over_deadline} too long" if row.over_deadline else ""),
        row.held_in_period,
        f"{row.sbatch_s:.1f}",
        "**never**" if row.recovery_s is None else f"{row.recovery_s:.0f}",
        commit,
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _bold(count: int) -> str:
    return f"**{count}**" if count else "0"


def _missed(rows: Mapping[str, Row]) -> list[str]:
    missed = [row for row in rows.values() if not row.held]
    if not missed:
        return []
    return ["## Missed", "", *(f"- {row.fault}: {_harm(row)}" for row in missed)]


def _harm(row: Row) -> str:
    harm = [f"{count} {name.replace('_', ' ')}" for name, count in row.harm.items() if count]
    if row.over_deadline:
        harm.append(f"{row.over_deadline} calls beyond the deadline")
    if row.recovery_s is None or row.recovery_s > 60:
        harm.append("recovery" if row.recovery_s is None else f"recovery in {row.recovery_s:.0f} s")
    return ", ".join(harm)
