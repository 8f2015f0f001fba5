"""Choice of what to do first about a step's parts: the largest one that can be removed. Pure."""

from collections.abc import Sequence
from typing import Any

from slurm_ext.probe.windows.estimate import Figure

WORTH = 0.025  # of a step: less is not advised on
_ADVICE = {
    "fetch": "faster storage or a local copy, or more workers",
    "cores": "more cores for the workers that there are",
    "preparation": "more workers, each with a core, or cheaper preparation",
    "data": "more workers",
    "slow rank": "the rank that computes longest: its node, or its share of the data",
    "communicating": "larger or fewer gradient buckets, or a faster link",
}
_SHARDED = (  # FSDP's own options: they are advised, never set
    "prefetching (fully_shard: set_modules_to_forward_prefetch; FSDP: forward_prefetch),"
    " reshard_after_forward=False where memory allows, or a faster link"
)


def first_advice(
    parts: Sequence[dict[str, Any]], step: Figure, *, traced: bool
) -> dict[str, Any] | None:
    """The largest part that surely is, and that something can be done about; else None."""
    divided = {part["part_of"] for part in parts} - {"communicating"}
    worth = [
        part
        for part in parts
        if part["name"] in _ADVICE
        and part["name"] not in divided
        and part["low"] > 0
        and part["value"] >= WORTH * step.value
    ]
    if not worth:
        return None
    largest = max(worth, key=lambda part: float(part["value"]))
    wording = {**_ADVICE, "communicating": _SHARDED} if traced else _ADVICE
    return {"name": largest["name"], "seconds": largest["value"], "do": wording[largest["name"]]}
