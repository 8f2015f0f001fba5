"""Status of the elastic loop: each partition's GPUs, divided among its elastic jobs."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from slurm_ext.cli.control.actions import action_lines

if TYPE_CHECKING:
    from rich.console import RenderableType


def lines(status: Mapping[str, Any]) -> "Iterator[RenderableType]":
    """The actions, each partition's division, and the jobs that are left alone."""
    yield from action_lines(status, _details(status["details"]))


def _details(details: Mapping[str, Any]) -> Iterator[str]:
    for pool in details.get("pools", []):
        yield f"partition {pool['partition']}: {pool['gpus']} GPUs for elastic jobs"
        for row in pool["jobs"]:
            verb = "has" if row["runs"] else "asks for"
            wanted = "waits" if row["wanted"] is None else f"{row['wanted']} wanted"
            bounds = f"{row['least']} to {row['most']}"
            yield f"  job {row['job']} ({bounds}): {verb} {row['gpus']}, {wanted}"
    for job, why in sorted(details.get("left_alone", {}).items()):
        yield f"job {job} is left alone: {why}"
