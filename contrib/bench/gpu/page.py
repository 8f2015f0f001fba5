"""The figures for people, as one page of Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from contrib.bench.gpu.table import ROWS

_WHAT = {kind.name: kind.what for kind in ROWS}


def page(result: Mapping[str, Any]) -> str:
    """The machine, the rows with their figures, what was absent, and what was wanted."""
    figures = result["figures"]
    lines = ["# GPU rows", "", "Written by `python -m contrib.bench.gpu`; do not edit.", ""]
    if figures["note"]:
        lines += [f"**{figures['note']}**", ""]
    lines += [f"- {name}: {_told(value)}" for name, value in figures["machine"].items()]
    lines += ["", "Figures are medians of their repeats, with 90 % intervals by a bootstrap.", ""]
    for name, outcome in figures["rows"].items():
        lines += _row(name, outcome)
    return "\n".join([*lines, *_wanted(result["wanted"])])


def line(name: str, outcome: Mapping[str, Any]) -> str:
    """One row's progress."""
    count = len(outcome["figures"])
    why = f": {outcome['why']}" if outcome["why"] else ""
    return f"{name:9} {outcome['seconds']:6.1f} s  {outcome['status']}, {count} figures{why}"


def _row(name: str, outcome: Mapping[str, Any]) -> list[str]:
    lines = [f"## {name}: {_WHAT.get(name, '')}", ""]
    if outcome["status"] != "measured":
        lines += [f"{outcome['status']}: {outcome['why']}", ""]
    if outcome["figures"]:
        lines += ["| figure | value | 90 % interval | repeats |", "|---|---|---|---|"]
        lines += [_figure(what, one) for what, one in outcome["figures"].items()]
        lines.append("")
    told = [f"- {what}: {_told(value)}" for what, value in outcome["facts"].items()]
    told += [f"- absent: {part} ({why})" for part, why in outcome["absent"].items()]
    return [*lines, *told, ""] if told else lines


def _figure(name: str, one: Mapping[str, Any]) -> str:
    ends = "none" if one["low"] is None else f"{_number(one['low'])} to {_number(one['high'])}"
    value = f"{_number(one['value'])} {one['unit']}".rstrip()
    return f"| {name} | {value} | {ends} | {one['n']} |"


def _wanted(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    lines = ["## Wanted", "", "| what | target | got | met |", "|---|---|---|---|"]
    for row in rows:
        got = "not measured" if row["got"] is None else _number(row["got"])
        met = "yes" if row["met"] else "**no**"
        lines.append(f"| {row['what']} | {row['target']} | {got} | {met} |")
    return [*lines, ""]


def _number(value: float) -> str:
    return f"{value:.4g}"


def _told(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value is None else " ".join(str(value).split())
