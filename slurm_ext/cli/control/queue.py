"""Status of the queue loop: waiting jobs in the order of what they are predicted to need."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from slurm_ext.cli.control.actions import action_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_SHOWN = 20  # of a group, and of those left alone; --json has all


def lines(status: Mapping[str, Any]) -> "Iterator[RenderableType]":
    """The actions, each group's order, and the jobs that are left alone."""
    yield from action_lines(status, _details(status["details"]))


def _details(details: Mapping[str, Any]) -> Iterator[str]:
    if details.get("reason"):
        yield f"nothing is done: {details['reason']}"
    for order in details.get("orders", []):
        qos = f", QOS {order['qos']}" if order["qos"] else ""
        yield f"partition {order['partition']}{qos}: {len(order['jobs'])} wait for their turn"
        yield from _rows(order)
        yield from _more(len(order["jobs"]))
    left_alone = sorted(details.get("left_alone", {}).items())
    for job, why in left_alone[:MAX_SHOWN]:
        yield f"job {job} is left alone: {why}"
    yield from _more(len(left_alone))


def _rows(order: Mapping[str, Any]) -> Iterator[str]:
    from slurm_ext.control.queue.order import need_in_words

    for row in order["jobs"][:MAX_SHOWN]:
        need = f"{need_in_words(row['need'], gpus=order['gpus'])} (by {row['by']})"
        owner = f"job {row['job']} ({row['user']}'s {row['name']})"
        yield f"  {row['place']:>3}. {owner}: {need}{_nice(row['nice'], row['wanted_nice'])}"


def _nice(now: int, wanted: int) -> str:
    if now == wanted:
        return f", nice {now}" if now else ""
    return f", nice {now} -> {wanted}"


def _more(count: int) -> Iterator[str]:
    if count > MAX_SHOWN:
        yield f"  and {count - MAX_SHOWN} more (--json lists them)"
