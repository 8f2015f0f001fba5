"""`dlqueue control --queue`: waiting jobs in the order of what they are thought to need."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.control.loops.cluster_loop import ControlLoop
    from slurm_ext.control.loops.loop_memory import LoopFolder
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.slurm import SlurmClient

MOST_SHOWN = 20  # of a group, and of those left alone; --json has all


def make(settings: "Settings", client: "SlurmClient", folder: "LoopFolder") -> "ControlLoop":
    """The loop. Raises InputError where its memory is damaged."""
    from slurm_ext.control.queue.queue_loop import QueueLoop

    return QueueLoop(settings, client, folder)


def details(status: Mapping[str, Any]) -> Iterator[str]:
    """Each order as it is wanted, and who is left alone."""
    from slurm_ext.control.queue.order import need_in_words

    seen = status["details"]
    if seen.get("reason"):
        yield f"nothing is done: {seen['reason']}"
    for order in seen.get("orders", []):
        yield _head(order)
        for one in order["jobs"][:MOST_SHOWN]:
            need = f"{need_in_words(one['need'], gpus=order['gpus'])} (by {one['by']})"
            who = f"job {one['job']} ({one['user']}'s {one['name']})"
            nice = _nice(one["nice"], one["wanted_nice"])
            yield f"  {one['place']:>3}. {who}: {need}{nice}"
        yield from _more(len(order["jobs"]))
    left = sorted(seen.get("left_alone", {}).items())
    for job, why in left[:MOST_SHOWN]:
        yield f"job {job} is left alone: {why}"
    yield from _more(len(left))


def _head(order: Mapping[str, Any]) -> str:
    qos = f", QOS {order['qos']}" if order["qos"] else ""
    return f"partition {order['partition']}{qos}: {len(order['jobs'])} wait for their turn"


def _nice(now: int, wanted: int) -> str:
    if now == wanted:
        return f", nice {now}" if now else ""
    return f", nice {now} -> {wanted}"


def _more(count: int) -> Iterator[str]:
    if count > MOST_SHOWN:
        yield f"  and {count - MOST_SHOWN} more (--json lists them)"
