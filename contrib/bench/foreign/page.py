"""The table of all programs for people, as Markdown."""

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HEAD = (
    "program",
    "figure",
    "truth",
    "error",
    "equal",
    "with two workers asked for",
    "at work",
    "commit",
)


def write_page(path: Path, figures: Mapping[str, Any], wanted: Sequence[Mapping[str, Any]]) -> None:
    """Write the page to `path`."""
    path.write_text(page(figures, wanted))


def page(figures: Mapping[str, Any], wanted: Sequence[Mapping[str, Any]]) -> str:
    """Return the page: the shares, what stands against the rest, and a line for each program."""
    lines = [
        "# Other people's programs",
        "",
        "Written by `python -m contrib.bench.foreign --page`; do not edit. Each program ran",
        "three times: without dlqueue, watched, and with two workers asked for. *Figure*: what",
        "the probe's summaries say of the watched run; *truth*: what the program counted by its",
        "own clock in that run; *equal*: losses bit for bit the same in all three; *at work*: mean",
        "workers over the training's passes after the first one, their starts included. Written on",
        f"{os.cpu_count()} cores, {platform.machine()}; each row has the commit that it ran at.",
        "",
        f"{figures['n']} programs:",
        "",
        *(f"- {one['what']}: {one['got']} (wanted {one['target']})" for one in wanted),
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{'---|' * len(HEAD)}",
        *(_line(row) for row in figures["rows"]),
        *_list("Not as wanted", {name: "; ".join(why) for name, why in figures["reasons"].items()}),
        *_list("Not measured here", figures["skipped"]),
    ]
    return "\n".join([*lines, ""])


def _line(row: Mapping[str, Any]) -> str:
    told = row["figure"] is not None
    cells = (
        row["program"],
        f"{row['figure']:,.1f} {row['kind']}/s" if told else "none",
        f"{row['truth']:,.1f}" if told else "",
        f"{row['error']:+.1%}" if told else "",
        "yes" if row["equal"] else "no",
        row["decision"].replace("|", "/"),
        _workers(row),
        row["commit"],
    )
    return f"| {' | '.join(cells)} |"


def _workers(row: Mapping[str, Any]) -> str:
    """Empty without a loader; unknown where the line was kept before they were counted."""
    if "workers" not in row:
        return "?"
    return "" if row["workers"] is None else f"{row['workers']:.1f}"


def _list(title: str, clauses: Mapping[str, str]) -> Iterator[str]:
    if clauses:
        yield from ("", f"## {title}", "")
        yield from (f"- {name}: {why}" for name, why in clauses.items())
