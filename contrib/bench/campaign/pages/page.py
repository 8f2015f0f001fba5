"""The table for people, as Markdown."""

import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from contrib.bench.campaign.faults.fault import Fault
from contrib.bench.campaign.pages.earlier import NOTHING, Earlier
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
    "load",
    "commit",
)


def page(
    faults: Sequence[Fault],
    rows: Mapping[str, Row],
    kept: Mapping[str, Any],
    before: Earlier = NOTHING,
) -> str:
    """The page: how it was measured, the table, and what each row that missed names.

    A fault without a row has the one that the page had `before`; what this machine cannot have is
    named with the reason.
    """
    table = [_of(fault, rows, kept, before) for fault in faults]
    missed = [_missed(fault.name, rows, before) for fault in faults]
    lines = [
        "# The fault campaign",
        "",
        "Written by `python -m contrib.bench.campaign`; do not edit. One fault at a time on a",
        "real Slurm of four hosts with everything on. Columns are derived from Slurm's",
        "accounting, queue and log, and from the history. *By slurmd*: nodes that slurmd 22.05",
        "has drained for a requeued job's prolog that it threw away, whoever's it is. *Waits in a",
        "period*: how often slurmctld waited for a whole deadline within one breaker period, at",
        "most. *Load*: how many processes ran or waited (mean of a minute) before the row began;",
        "its times are bounds from above where that is more than the machine's cores; a hold is",
        "told with its waits for a core and with what the host of a virtual machine took of that",
        "core, and is judged without either.",
        f"Written on {os.cpu_count()} cores,",
        f"{platform.machine()}; each row was measured at the commit beside it.",
        "",
        f"| {' | '.join(_HEAD)} |",
        f"|{'---|' * len(_HEAD)}",
    ]
    unmeasured = [fault for fault, line in zip(faults, table, strict=True) if not line]
    absent = [f"- {fault.what}: {why}" for fault in unmeasured if (why := fault.missing())]
    lists = (*_list("Not measured here", absent), *_list("Missed", [*filter(None, missed)]))
    return "\n".join([*lines, *filter(None, table), *lists, ""])


def _of(fault: Fault, rows: Mapping[str, Row], kept: Mapping[str, Any], before: Earlier) -> str:
    """The line of a fault; empty if it was never measured."""
    if fault.name in rows:
        beside = kept[fault.name]
        return _line(rows[fault.name], fault.what, beside["load"], beside["commit"])
    return before.line(fault.what, _HEAD) if fault.what in before.rows else ""


def _line(row: Row, what: str, load: float, commit: str) -> str:
    cells = [
        what,
        row.submitted,
        row.refused,
        _bold(len(row.rejected)),
        _bold(len(row.drained)) + (f", {len(row.in_vain)} by slurmd" if row.in_vain else ""),
        _bold(len(row.changed)),
        f"{row.runs}" + (f", {row.running} not over" if row.running else ""),
        *(_bold(len(found)) for found in (row.lost, row.doubled, row.otherwise)),
        f"{row.aside}"
        + (f", {row.aside_unexplained} without reason" if row.aside_unexplained else ""),
        f"{1000 * row.held_s:.0f}"
        + (f", {row.over_deadline} too long" if row.over_deadline else ""),
        row.held_in_period,
        f"{row.sbatch_s:.1f}",
        "**never**" if row.recovery_s is None else f"{row.recovery_s:.0f}",
        f"{load:.1f}",
        commit,
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _bold(count: int) -> str:
    return f"**{count}**" if count else "0"


def _missed(name: str, rows: Mapping[str, Row], before: Earlier) -> str:
    """The line of a row that missed; empty for any other."""
    if name not in rows:
        return before.missed.get(name, "")
    return "" if rows[name].held else f"- {name}: {_harm(rows[name])}"


def _list(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *lines] if lines else []


def _harm(row: Row) -> str:
    harm = [f"{count} {name.replace('_', ' ')}" for name, count in row.harm.items() if count]
    if row.over_deadline:
        harm.append(f"{row.over_deadline} calls beyond the deadline")
    if row.recovery_s is None or row.recovery_s > 60:
        harm.append("recovery" if row.recovery_s is None else f"recovery in {row.recovery_s:.0f} s")
    return ", ".join(harm)
