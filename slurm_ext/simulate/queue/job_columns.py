"""Columns of replayed jobs and of their results. Index: a job's rank in its queue."""

from heapq import heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Column, Trace

NEVER = float("nan")
Counts = list[int] | dict[int, int]  # dicts where ranks are given as jobs come
Seconds = list[float] | dict[int, float]


class JobColumns:
    """Columns of jobs as lists, because single values are read millions of times."""

    def __init__(self, gpus: NDArray[Any], duration_s: NDArray[Any], limit_s: NDArray[Any]) -> None:
        """`limit_s`: for how long the scheduler thinks that each runs."""
        count = len(gpus)
        self.gpus: Counts = gpus.tolist()
        self.duration_s: Seconds = duration_s.tolist()
        self.limit_s: Seconds = limit_s.tolist()
        self.start_s: Seconds = [NEVER] * count  # the first
        self.end_s: Seconds = [NEVER] * count
        self.expected_s: Seconds = [NEVER] * count
        self.restarts: dict[int, int] = {}
        self.events: list[tuple[float, int, int]] = []  # time, job, its start's number
        self.changes: list[tuple[float, int]] = []  # time, GPUs that were taken or given back

    def begun(self, rank: int, now_s: float) -> None:
        """A job that nobody will interrupt starts."""
        self.start_s[rank] = now_s
        self.expected_s[rank] = now_s + self.limit_s[rank]
        heappush(self.events, (now_s + self.duration_s[rank], rank, 0))

    def ended(self, rank: int, now_s: float) -> None:
        """A job is done."""
        self.end_s[rank] = now_s

    def used(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Times of change, and GPUs that were in use from each on."""
        if self.changes:
            times, steps = (
                np.array(part, dtype=np.float64) for part in zip(*self.changes, strict=True)
            )
        else:
            gpus = np.array(self.gpus, dtype=np.float64)
            times = np.concatenate([self.start_s, self.end_s])
            steps = np.concatenate([gpus, -gpus])
        order = np.lexsort((steps, times))  # what is given back at a time comes first
        return times[order], np.cumsum(steps[order])


def result_of(
    trace: Trace, cluster: Cluster, policy: str, work: JobColumns, rank: Column
) -> ReplayResult:
    """The work's columns, by rank, in the trace's order."""
    changed_s, used = work.used()
    number = {int(place): index for index, place in enumerate(rank)} if work.restarts else {}
    return ReplayResult(
        policy=policy,
        submit_s=trace.submit_s,
        duration_s=trace.duration_s,
        start_s=np.array(work.start_s)[rank],
        end_s=np.array(work.end_s)[rank],
        gpus_in_all=cluster.gpus,
        changed_s=changed_s,
        used=used,
        restarts={trace.job[number[place]]: times for place, times in work.restarts.items()},
    )
