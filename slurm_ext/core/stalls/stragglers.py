"""Ranks that the others of a job wait for: always the same one, or now this and now that.

A rank that is slow in every window has slow hardware below it: its node or its GPU. Slowness that
moves from rank to rank is data loading, since each window draws other samples (Meta SPDL's rule).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb
from typing import Any

from slurm_ext.core.stalls.rank_waits import waits_of
from slurm_ext.core.stats import median

NOTABLE = 0.05  # of a step: a rank less behind the median holds nobody up
FEWEST = 4  # windows with a straggler; fewer show no pattern
CHANCE = 0.01  # that a moving straggler hits one rank as often


class Straggling(StrEnum):
    """Kind of a job's stragglers."""

    NONE = "none"
    FIXED = "fixed"  # the node or GPU of one rank
    MOVING = "moving"  # the loader
    UNKNOWN = "unknown"  # too few windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Stragglers:
    """Kind of straggling, the rank that is always slow, and the share of a step that it costs."""

    kind: Straggling
    rank: int | None = None
    cost: float = 0.0


def stragglers(windows: Sequence[Mapping[int, float]]) -> Stragglers:
    """Judge windows of own seconds a step by rank: waiting for other ranks taken away."""
    several = [window for window in windows if len(window) > 1]
    behind = [_slowest(window) for window in several]
    slow = [(rank, excess) for rank, excess in behind if excess > NOTABLE]
    if not several:
        return Stragglers(kind=Straggling.UNKNOWN)
    cost = sum(excess for _, excess in slow) / len(several)
    if len(slow) * 2 <= len(several):
        return Stragglers(kind=Straggling.NONE, cost=cost)
    if len(slow) < FEWEST:
        return Stragglers(kind=Straggling.UNKNOWN, cost=cost)
    (rank, times), *_ = Counter(rank for rank, _ in slow).most_common(1)
    ranks = max(len(window) for window in several)
    if _by_chance(times, len(slow), ranks) < CHANCE and times * 2 > len(slow):
        return Stragglers(kind=Straggling.FIXED, rank=rank, cost=cost)
    return Stragglers(kind=Straggling.MOVING, cost=cost)


def windows_of(summaries: Iterable[Mapping[str, Any]]) -> list[dict[int, float]]:
    """Own seconds of each rank in each step that torch timed on all ranks, from their summaries.

    Ranks wait for each other in the step's reduction: who waits least computed longest.
    """
    waited: dict[int, dict[int, float]] = {}
    steps: list[float] = []
    for summary in summaries:
        timed, rank, step_s = summary.get("communication"), summary.get("rank"), _step_s(summary)
        if timed and isinstance(rank, int) and step_s is not None:
            steps.append(step_s)
            for iteration, wait_s in waits_of(summary).items():
                waited.setdefault(iteration, {})[rank] = wait_s
    step_s = median(steps) if steps else 0.0
    whole = [ranks for _, ranks in sorted(waited.items()) if len(ranks) == len(steps)]
    return [{rank: max(0.0, step_s - s) for rank, s in ranks.items()} for ranks in whole]


def _step_s(summary: Mapping[str, Any]) -> float | None:
    """Seconds of a step of the process's largest loader; None: it counted none."""
    totals = [
        (sum(p["batches"] for p in loader["phases"]), sum(p["step_s"] for p in loader["phases"]))
        for loader in summary.get("loaders") or ()
    ]
    batches, seconds = max(totals, default=(0, 0.0))
    return seconds / batches if batches and seconds > 0 else None


def _slowest(own_s: Mapping[int, float]) -> tuple[int, float]:
    """The rank with the longest own time, and how far it is over the median, relative to it."""
    rank = max(own_s, key=lambda rank: own_s[rank])
    others = median(value for other, value in own_s.items() if other != rank)
    return rank, own_s[rank] / others - 1 if others > 0 else 0.0


def _by_chance(times: int, windows: int, ranks: int) -> float:
    """Bound of the chance that some rank is slowest so often, if each window draws one of them."""
    odds = 1 / ranks
    tail = sum(
        comb(windows, k) * odds**k * (1 - odds) ** (windows - k) for k in range(times, windows + 1)
    )
    return ranks * tail
