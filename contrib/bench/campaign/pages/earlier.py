"""A page that was written before: rows that a state lacks stay on it, each with its commit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

UNKNOWN = "?"  # a column that the page did not have when the row was measured
_MISSED = re.compile(r"- (\w+): ")


@dataclass(frozen=True, slots=True)
class Earlier:
    """Cells by column, of each fault in the table's words; lines of what missed, by its name."""

    rows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    missed: Mapping[str, str] = field(default_factory=dict)

    def line(self, what: str, head: tuple[str, ...]) -> str:
        """The row of a fault, in these columns."""
        cells = (self.rows[what].get(column, UNKNOWN) for column in head)
        return f"| {' | '.join(cells)} |"


NOTHING = Earlier()


def earlier(path: Path) -> Earlier:
    """Read the page at `path`; nothing where there is none."""
    return read(path.read_text()) if path.exists() else NOTHING


def read(text: str) -> Earlier:
    """Read a page's table, and its list of what missed."""
    lines = text.splitlines()
    table = [_cells(line) for line in lines if line.startswith("| ")]
    missed = {name[1]: line for line in lines if (name := _MISSED.match(line))}
    if not table:
        return NOTHING
    head, *rows = table
    return Earlier({row[0]: dict(zip(head, row, strict=True)) for row in rows}, missed)


def _cells(line: str) -> list[str]:
    return line.removeprefix("| ").removesuffix(" |").split(" | ")
