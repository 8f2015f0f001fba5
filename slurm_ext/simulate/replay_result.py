"""Result of a replay: waiting, completion, and GPUs in use over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]

QUANTILES = {"median": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """Columns in the trace's order; seconds since the first submission."""

    policy: str
    submit_s: Column
    duration_s: Column
    start_s: Column  # the first start
    end_s: Column
    gpus_in_all: int
    changed_s: Column  # when the number of GPUs in use changed
    used: Column  # GPUs in use from then on
    restarts: Mapping[str, int] = field(default_factory=dict)  # by job, of those stopped
    unfinished: Mapping[int, str] = field(default_factory=dict)  # by place: why it never completed
    lost_gpu_s: float = 0.0  # GPU-seconds of work that ended with nodes
    out: Sequence[tuple[float, int]] = ()  # time, idle GPUs whose nodes took no jobs any more
    notes: Sequence[str] = ()  # without which the figures would mislead

    @property
    def completed(self) -> Column:
        """True for jobs that completed; only they count in times."""
        done = np.ones(len(self.end_s), dtype=bool)
        done[[*self.unfinished]] = False
        return done

    @property
    def jct_s(self) -> Column:
        """From submission to completion."""
        taken: Column = (self.end_s - self.submit_s)[self.completed]
        return taken

    @property
    def queue_s(self) -> Column:
        """Completion time beyond the run time: waiting, and what a stopped job does once more."""
        waited: Column = np.maximum(0.0, self.jct_s - self.duration_s[self.completed])
        return waited

    @property
    def used_gpu_s(self) -> float:
        """GPU-seconds that jobs held."""
        return float(np.sum(np.diff(self.changed_s) * self.used[:-1]))

    @property
    def makespan_s(self) -> float:
        """From the first submission to the last completion."""
        return float(self.end_s[~np.isnan(self.end_s)].max(initial=0.0))

    @property
    def out_gpu_s(self) -> float:
        """GPU-seconds that nodes were not there for jobs, and ran none."""
        return sum(gpus * max(0.0, self.makespan_s - when_s) for when_s, gpus in self.out)

    def figures(self) -> dict[str, float]:
        """The figures of a row: seconds, and the share in use of the GPU time that was there."""
        capacity = self.gpus_in_all * self.makespan_s - self.out_gpu_s
        return {
            **summary("jct", self.jct_s),
            **summary("queue", self.queue_s),
            "makespan_s": self.makespan_s,
            "utilisation": self.used_gpu_s / capacity if capacity else 0.0,
            "restarts": float(sum(self.restarts.values())),
            "unfinished": float(len(self.unfinished)),
            "lost_gpu_s": self.lost_gpu_s,
        }

    def utilisation(self, bins: int) -> tuple[Column, Column]:
        """Mean share of GPUs in use in equal slices of time; slice starts (s) and shares."""
        edges = np.linspace(0.0, max(self.makespan_s, 1.0), bins + 1)
        spent = np.concatenate([[0.0], np.cumsum(np.diff(self.changed_s) * self.used[:-1])])
        there = np.interp(edges, self.changed_s, spent)
        return edges[:-1], np.diff(there) / (np.diff(edges) * self.gpus_in_all)


def summary(name: str, seconds: Column) -> dict[str, float]:
    """Mean and quantiles of a column."""
    if not len(seconds):
        return {}
    figures = {f"{name}_mean_s": float(seconds.mean())}
    for word, quantile in QUANTILES.items():
        figures[f"{name}_{word}_s"] = float(np.percentile(seconds, quantile))
    return figures


def distribution(seconds: Column, points: int) -> tuple[Column, Column]:
    """Times, and the share of jobs that took no longer; both rise."""
    shares = np.linspace(0.0, 1.0, points + 1)
    return np.quantile(seconds, shares), shares
