"""Status of the energy loop: which nodes sleep, and which are woken."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from slurm_ext.cli.control.actions import action_lines

if TYPE_CHECKING:
    from rich.console import RenderableType


def lines(status: Mapping[str, Any]) -> "Iterator[RenderableType]":
    """The actions, and each pool of nodes."""
    yield from action_lines(status, _details(status["details"]))


def _details(details: Mapping[str, Any]) -> Iterator[str]:
    if details["hindered"]:
        yield f"nothing is done: {details['hindered']}"
    if details.get("unknown"):
        yield f"energy.exclude names what is no node: {', '.join(details['unknown'])}"
    for pool, row in details["pools"].items():
        counts = ", ".join(f"{count} {power}" for power, count in row["nodes"].items() if count)
        name = "all nodes" if pool == "*" else f"partition {pool}"
        yield f"{name}: {counts}; {row['needed']} needed, at most {row['peak']} ({row['by']})"
        yield f"  {row['reason']}"
