"""Sources of a node's counters, as the hooks' own interpreter finds them."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_ext.cli.doctor.finding import output
from slurm_ext.core.settings.document import Settings

if TYPE_CHECKING:
    from rich.table import Table

PROGRAM = Path(__file__).parents[2] / "node" / "counters" / "sources.py"
_ADVICE = {
    "perf events": "sysctl kernel.perf_event_paranoid=1 lets more than root count",
    "NVML": "pip install nvidia-ml-py for node.python",
}


def sources(settings: Settings) -> list[dict[str, Any]]:
    """Each source's `name`, what it `counts` (empty: nothing), `why` not (more), by `python`.

    Asks `node.python`, which the hooks run in; our own interpreter where that does not answer.
    """
    for python in (settings["node.python"], sys.executable):
        text = output([python, "-I", "-S", str(PROGRAM)], {})
        try:
            rows = json.loads(text or "")
        except ValueError:
            continue
        return [{**row, "python": python} for row in rows]
    return []


def table(rows: list[dict[str, Any]]) -> "Table":
    """For people: one source a row."""
    from rich.markup import escape
    from rich.table import Table

    shown = Table("source", "counts", box=None)
    shown.add_column("what it does not, and why", overflow="fold")
    for row in rows:
        counts = escape(row["counts"]) or "[yellow]nothing[/]"
        advice = _ADVICE.get(row["name"], "") if not row["counts"] else ""
        why = "; ".join(part for part in (row["why"], advice) if part)
        shown.add_row(row["name"], counts, escape(why))
    return shown
