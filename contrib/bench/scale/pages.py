"""The laws and the demands for people, as two tables of Markdown."""

from collections.abc import Mapping
from typing import Any


def page(figures: Mapping[str, Any]) -> str:
    """Both tables, with the machine's load before they were measured."""
    lines = [f"Load of the machine: {figures['load']}.", ""]
    lines += ["| part | cost | sizes | at the largest | law | error there |"]
    lines += ["|---|---|---|---|---|---|"]
    for part, costs in figures["points"].items():
        for name, points in costs.items():
            sizes = ", ".join(f"{size:,}" for size, _ in points)
            law, error = figures["laws"][part][name], figures["errors"][part][name]
            largest = f"{points[-1][1]:.3g}"
            lines.append(f"| {part} | {name} | {sizes} | {largest} | {law} | {error:.1%} |")
    lines += ["", "| part | asked | holds | cost there | |", "|---|---|---|---|---|"]
    for row in figures["demands"]:
        asked = f"{row['asked']:,.0f} {row['unit']}"
        holds = "any" if row["holds"] >= 1e12 else f"{row['holds']:,.0f}"
        verdict = "**breaks**" if row["breaks"] else "holds"
        lines.append(f"| {row['part']} | {asked} | {holds} | {row['cost']} | {verdict} |")
    return "\n".join([*lines, ""])
