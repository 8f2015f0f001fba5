"""Columns of replayed jobs and of their results. Index: a job's number."""

from heapq import heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Column, Trace

NEVER = float("nan")


class JobColumns:
    """Columns of jobs as lists, because single values are read millions of times."""

    def __init__(self, gpus: NDArray[Any], duration_s: NDArray[Any], limit_s: NDArray[Any]) -> None:
        """`limit_s`: for how long the scheduler thinks that each runs."""
        count = len(gpus)
        self.gpus: list[int] = gpus.tolist()
        self.duration_s: list[float] = duration_s.tolist()
        self.limit_s: list[float] = limit_s.tolist()
        self.start_s: list[float] = [NEVER] * count  # the first
        self.end_s: list[float] = [NEVER] * count
        self.expected_s: list[float] = [NEVER] * count
        self.restarts: dict[int, int] = {}
        self.events: list[tuple[float, int, int]] = []  # time, job, its start's number
        self._started: list[int] = []  # since newly_started() was called
        self.changes: list[tuple[float, int]] = []  # time, GPUs that were taken or given back

    def begun(self, job: int, now_s: float) -> None:
        """A job that nobody will interrupt starts."""
        self.start_s[job] = now_s
        self.expected_s[job] = now_s + self.limit_s[job]
        self._started.append(job)
        heappush(self.events, (now_s + self.duration_s[job], job, 0))

    def ended(self, job: int, now_s: float) -> None:
        """A job is done."""
        self.end_s[job] = now_s

    def has_started(self, job: int) -> bool:
        """True if it runs or has run."""
        return self.start_s[job] == self.start_s[job]

    def newly_started(self) -> list[int]:
        """Jobs that began since the last call; not those of a pool that preempts."""
        started, self._started = self._started, []
        return started

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
    trace: Trace, cluster: Cluster, policy: str, work: JobColumns, numbers: Column
) -> ReplayResult:
    """The work's columns in the trace's order; `numbers`: of the jobs, by place in the trace."""
    changed_s, used = work.used()
    place = {int(job): index for index, job in enumerate(numbers)} if work.restarts else {}
    return ReplayResult(
        policy=policy,
        submit_s=trace.submit_s,
        duration_s=trace.duration_s,
        start_s=np.array(work.start_s)[numbers],
        end_s=np.array(work.end_s)[numbers],
        gpus_in_all=cluster.gpus,
        changed_s=changed_s,
        used=used,
        restarts={trace.job[place[job]]: times for job, times in work.restarts.items()},
    )
