"""Waiting for data, split into fetching, waiting for cores and preparing, in this order.

Workers that need x seconds for each batch of a step of T seconds make the loop wait
D = smooth-max(x, T) - T, where x = (CPU + queued + blocked) / workers. A part is the wait that goes
away with its cost: first blocked (storage), then queued (cores), and what is left is preparing.
The smooth maximum is the p-norm whose D is the wait that was measured. Where even the plain
maximum waits longer, the costs are scaled down to the wait. Where workers are far behind the step,
fetches that vary make no wait longer: some per cent more are handing batches over, and the costs
are scaled up to them.
"""

from collections.abc import Callable
from dataclasses import dataclass

_HALVINGS = 14
_HANDING = 0.05  # of a worker's time for a batch, at most, is handing it over
_FAR_BEHIND = 1.25  # times the step: all of that; none where both take equally long
AT_HOME = 0.5  # workers: below, the training process fetches


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCosts:
    """Seconds of all workers for one batch, and how many they are; 0: the loop fetches itself."""

    cpu_s: float
    queued_s: float
    blocked_s: float
    workers: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DataStall:
    """Parts of a wait; `unexplained_s` is what workers' costs cannot account for."""

    fetch_s: float
    cores_s: float
    preparation_s: float
    unexplained_s: float


def split_wait(wait_s: float, step_s: float, costs: WorkerCosts) -> DataStall:
    """Parts of a batch's wait, beside a step of so many seconds; they add up to it."""
    stall = _stall(wait_s, step_s, costs)
    whole = stall(costs.cpu_s + costs.queued_s + costs.blocked_s)
    without_fetch = stall(costs.cpu_s + costs.queued_s)
    preparing = stall(costs.cpu_s)
    return DataStall(
        fetch_s=max(0.0, whole - without_fetch),
        cores_s=max(0.0, without_fetch - preparing),
        preparation_s=preparing,
        unexplained_s=max(0.0, wait_s - whole),
    )


def _stall(wait_s: float, step_s: float, costs: WorkerCosts) -> Callable[[float], float]:
    """The wait as a function of the workers' seconds, through the wait that was measured."""
    worker_s = costs.cpu_s + costs.queued_s + costs.blocked_s
    if worker_s <= 0:
        return lambda _: 0.0
    if costs.workers < AT_HOME:  # one after the other: nothing hides the fetch
        return lambda seconds: min(wait_s, worker_s) * (seconds / worker_s)
    batch_s = worker_s / costs.workers
    if wait_s <= batch_s - step_s:
        scale = (wait_s + step_s) / worker_s
        return lambda seconds: max(0.0, seconds * scale - step_s)
    handed_s = batch_s + _handing_s(batch_s, step_s, wait_s)
    softness = _softness(handed_s, step_s, min(wait_s, handed_s))
    scale = handed_s / worker_s
    return lambda seconds: soft_max(seconds * scale, step_s, softness) - step_s


def _handing_s(batch_s: float, step_s: float, wait_s: float) -> float:
    """Seconds beyond the plain maximum that are handing a batch over."""
    behind = (batch_s / step_s - 1) / (_FAR_BEHIND - 1) if step_s > 0 else 1.0
    most_s = _HANDING * batch_s * min(1.0, max(0.0, behind))
    return min(most_s, wait_s - (batch_s - step_s))


def _softness(batch_s: float, step_s: float, wait_s: float) -> float:
    """1 / p of the p-norm that waits so long; 1 adds the two up. Halved, then a straight line."""
    low, high = 0.0, 1.0
    wanted = wait_s + step_s
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if soft_max(batch_s, step_s, middle) < wanted:
            low = middle
        else:
            high = middle
    below, above = soft_max(batch_s, step_s, low), soft_max(batch_s, step_s, high)
    share = (wanted - below) / (above - below) if above > below else 1.0
    return low + (high - low) * min(1.0, max(0.0, share))


def soft_max(one: float, other: float, softness: float) -> float:
    """The p-norm of two seconds, p = 1 / softness: their sum at 1, the larger one at 0."""
    larger, smaller = max(one, other), min(one, other)
    if smaller <= 0 or softness <= 0:
        return larger
    return float(larger * (1 + (smaller / larger) ** (1 / softness)) ** softness)
