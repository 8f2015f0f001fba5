"""Divide a data stall into fetch, cores and preparation, in Stash's order. Pure.

A loader of `workers` makes a batch each (cpu + queued + blocked) / workers seconds: the training
waits for what that is beyond its own step. Storage is taken away first, then the queue for cores;
what is left is the preparing itself (Stash, ICDCS 2023; DS-Analyzer, VLDB 2021).
"""

from dataclasses import dataclass

SHARPNESS = 8.0  # of the maximum: near balance the queue runs dry now and then


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCost:
    """Worker seconds of one batch: on a CPU, waiting for one, blocked (storage, locks)."""

    cpu_s: float
    queued_s: float
    blocked_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StallParts:
    """Seconds of a step that the training waits for each."""

    fetch_s: float
    cores_s: float
    preparation_s: float


def split(stall_s: float, compute_s: float, workers: int, cost: BatchCost) -> StallParts | None:
    """The measured stall in parts that add up to it; None where the costs tell of none."""
    cpu, queued, blocked = cost.cpu_s, cost.queued_s, cost.blocked_s
    whole = _stall(cpu + queued + blocked, compute_s, workers)
    if stall_s <= 0 or whole <= 0:
        return None
    without_fetch = _stall(cpu + queued, compute_s, workers)
    without_both = _stall(cpu, compute_s, workers)
    scale = stall_s / whole
    return StallParts(
        fetch_s=scale * (whole - without_fetch),
        cores_s=scale * (without_fetch - without_both),
        preparation_s=scale * without_both,
    )


def _stall(made_s: float, compute_s: float, workers: int) -> float:
    """Seconds that a step waits for a batch that takes a worker so long."""
    if workers == 0:
        return made_s
    each = made_s / workers
    longest = max(each, compute_s)
    if longest <= 0:
        return 0.0
    smooth: float = ((each / longest) ** SHARPNESS + (compute_s / longest) ** SHARPNESS) ** (
        1 / SHARPNESS
    )
    return longest * smooth - compute_s
