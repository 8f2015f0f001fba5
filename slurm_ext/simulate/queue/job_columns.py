"""Columns of replayed jobs and of their results. Index: a job's number."""

from heapq import heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.simulate.outages.failures import Failures
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Column, Trace

NEVER = float("nan")
MOST_RESTARTS = 100
FAILED = "failed with a node"
GIVEN_UP = f"failed with nodes {MOST_RESTARTS + 1} times: given up"
WAITED = "still waited when nothing was to come: too few nodes"


class JobColumns:
    """Columns of jobs as lists, because single values are read millions of times."""

    def __init__(
        self,
        gpus: NDArray[Any],
        duration_s: NDArray[Any],
        limit_s: NDArray[Any],
        failures: Failures | None = None,
    ) -> None:
        """`limit_s`: for how long the scheduler thinks that each runs."""
        count = len(gpus)
        self.gpus: list[int] = gpus.tolist()
        self.duration_s: list[float] = duration_s.tolist()
        self.limit_s: list[float] = limit_s.tolist()
        self.start_s: list[float] = [NEVER] * count  # the first
        self.end_s: list[float] = [NEVER] * count
        self.expected_s: list[float] = [NEVER] * count
        self.restarts: dict[int, int] = {}
        self.unfinished: dict[int, str] = {}  # why a job was refused, failed or never started
        self.lost_s: dict[int, float] = {}  # seconds of work that ended with nodes
        self._failures = failures
        self._left_s: dict[int, float] = {}  # seconds of work, of jobs that begin again
        self.events: list[tuple[float, int, int]] = []  # time, job, its start's number
        self._started: list[int] = []  # since newly_started() was called
        self.changes: list[tuple[float, int]] = []  # time, GPUs that were taken or given back
        self.out: list[tuple[float, int]] = []  # time, idle GPUs whose nodes took no jobs any more

    def begun(self, job: int, now_s: float) -> None:
        """A job that no other job will interrupt starts."""
        if not self.has_started(job):
            self.start_s[job] = now_s
        self.expected_s[job] = now_s + self.limit_s[job]
        self._started.append(job)
        left_s = self._left_s.get(job, self.duration_s[job])
        heappush(self.events, (now_s + left_s, job, self.restarts.get(job, 0)))
        self._holds(self.gpus[job], now_s)

    def ended(self, job: int, now_s: float) -> None:
        """A job is done."""
        self.end_s[job] = now_s
        self._holds(-self.gpus[job], now_s)

    def broken(self, job: int, failures: Failures, now_s: float) -> bool:
        """A node of the job has failed; says whether the job is to run again."""
        ran_s = now_s - (self.expected_s[job] - self.limit_s[job])
        kept_s = failures.kept_s(ran_s)
        self._left_s[job] = self._left_s.get(job, self.duration_s[job]) - kept_s
        self.lost_s[job] = self.lost_s.get(job, 0.0) + ran_s - kept_s
        self._holds(-self.gpus[job], now_s)
        times = self.restarts.get(job, 0)
        if failures.requeues and times < MOST_RESTARTS:
            self.restarts[job] = times + 1
            return True
        self.end_s[job] = now_s
        self.unfinished[job] = GIVEN_UP if failures.requeues else FAILED
        return False

    def is_over(self, job: int, start: int) -> bool:
        """True if an event is of a start that a node's failure has cut short."""
        return self.restarts.get(job, 0) != start or job in self.unfinished

    def _holds(self, gpus: int, now_s: float) -> None:
        """GPUs were taken or given back; without failures, starts and ends tell it."""
        if self._failures is not None:
            self.changes.append((now_s, gpus))

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
            ran = ~np.isnan(self.start_s)
            gpus = np.array(self.gpus, dtype=np.float64)[ran]
            times = np.concatenate([np.array(self.start_s)[ran], np.array(self.end_s)[ran]])
            steps = np.concatenate([gpus, -gpus])
        order = np.lexsort((steps, times))  # what is given back at a time comes first
        return times[order], np.cumsum(steps[order])


def result_of(
    trace: Trace, cluster: Cluster, policy: str, work: JobColumns, numbers: Column
) -> ReplayResult:
    """The work's columns in the trace's order; `numbers`: of the jobs, by place in the trace."""
    changed_s, used = work.used()
    end_s = np.array(work.end_s)
    for job in np.flatnonzero(np.isnan(end_s)).tolist():
        work.unfinished.setdefault(job, WAITED)
    place = {job: index for index, job in enumerate(numbers.tolist())}
    return ReplayResult(
        policy=policy,
        submit_s=trace.submit_s,
        duration_s=trace.duration_s,
        start_s=np.array(work.start_s)[numbers],
        end_s=end_s[numbers],
        gpus_in_all=cluster.gpus,
        changed_s=changed_s,
        used=used,
        restarts={trace.job[place[job]]: times for job, times in work.restarts.items()},
        unfinished={place[job]: why for job, why in work.unfinished.items()},
        lost_gpu_s=sum(seconds * work.gpus[job] for job, seconds in work.lost_s.items()),
        out=tuple(work.out),
    )
