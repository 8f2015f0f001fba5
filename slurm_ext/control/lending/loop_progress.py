"""Rate and wait of a job's training loops between two of its probe's summaries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

_Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopProgress:
    """Work of the loops in one window, all training processes of the job together."""

    samples_per_s: float
    wait_share: float  # part of the loops' time
    batches: int
    open_workers: int  # of all processes; 0: no loader has workers that could get help


class ProgressMeter:
    """Progress of one job; a window closes when the summaries are so many seconds older."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._before: dict[int, dict[str, float]] = {}
        self.latest: LoopProgress | None = None

    def look(self, summaries: Sequence[_Json]) -> LoopProgress | None:
        """Return a window that has just closed. Raises what a user's figures can: see `Lender`."""
        now = {summary["pid"]: _totals(summary) for summary in summaries}
        if now.keys() != self._before.keys():
            self._before = now
            return None
        parts = [_difference(self._before[pid], now[pid]) for pid in now]
        if not parts or min(part["ended_s"] for part in parts) < self._window_s:
            return None
        self._before = now
        self.latest = _progress(parts, sum(map(_open_workers, summaries)))
        return self.latest


def _progress(parts: Sequence[Mapping[str, float]], open_workers: int) -> LoopProgress:
    loop_s = sum(part["wall_s"] for part in parts)
    waited = sum(part["wait_s"] for part in parts) / loop_s if loop_s > 0 else 0.0
    return LoopProgress(
        samples_per_s=sum(part["samples"] / part["ended_s"] for part in parts),
        wait_share=min(1.0, max(0.0, waited)),
        batches=int(sum(part["batches"] for part in parts)),
        open_workers=open_workers,
    )


def _totals(summary: _Json) -> dict[str, float]:
    """A process's clock, and all its loaders' phases added up."""
    total = dict.fromkeys(("samples", "batches", "wall_s", "wait_s"), 0.0)
    for loader in summary["loaders"]:
        for phase in loader["phases"]:
            for name in total:
                total[name] += _number(phase[name])
    return {**total, "ended_s": _number(summary["ended_s"])}


def _difference(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    return {name: max(0.0, now[name] - before[name]) for name in now}


def _number(value: float) -> float:
    if not isinstance(value, (int, float)) or not isfinite(value):
        raise ValueError(f"{value!r} is no figure")
    return float(value)


def _open_workers(summary: _Json) -> int:
    """Workers at work in its busiest loader; 0 where that is left as the user wrote it."""
    gated = [loader for loader in summary["loaders"] if type(loader.get("gate")) is int]
    if not gated:
        return 0
    busiest = max(gated, key=lambda loader: sum(phase["samples"] for phase in loader["phases"]))
    return max(0, int(busiest["gate"]))
