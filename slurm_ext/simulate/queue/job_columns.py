"""Columns of replayed jobs and of their results. Index: a job's number."""

from heapq import heappush
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Column, Trace

NEVER = float("nan")
MOST_RESTARTS = 100
GIVEN_UP = f"was stopped {MOST_RESTARTS + 1} times: given up"
WAITED = "still waited when nothing was to come: too few nodes, or a limit"


class JobColumns:
    """Columns of jobs as lists, because single values are read millions of times."""

    def __init__(
        self,
        gpus: NDArray[Any],
        duration_s: NDArray[Any],
        limit_s: NDArray[Any],
        saves_s: float | None = None,
    ) -> None:
        """`limit_s`: for how long the scheduler thinks that each runs.

        `saves_s`: how often jobs save their work, inf: never; None: nothing stops a running job.
        """
        count = len(gpus)
        self.gpus: list[int] = gpus.tolist()
        self.duration_s: list[float] = duration_s.tolist()
        self.limit_s: list[float] = limit_s.tolist()
        self.start_s: list[float] = [NEVER] * count  # the first
        self.end_s: list[float] = [NEVER] * count
        self.expected_s: list[float] = [NEVER] * count
        self.restarts: dict[int, int] = {}
        self.unfinished: dict[int, str] = {}  # why a job was refused, failed or never started
        self.lost_s: dict[int, float] = {}  # seconds of work that were not saved
        self._saves_s = saves_s
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

    def stopped(self, job: int, now_s: float, why: str = "") -> bool:
        """A running job is stopped; says whether it is to run again. `why`: it is not."""
        ran_s = now_s - (self.expected_s[job] - self.limit_s[job])
        kept_s = self._saved_s(ran_s)
        self._left_s[job] = self._left_s.get(job, self.duration_s[job]) - kept_s
        self.lost_s[job] = self.lost_s.get(job, 0.0) + ran_s - kept_s
        self._holds(-self.gpus[job], now_s)
        times = self.restarts.get(job, 0)
        if not why and times < MOST_RESTARTS:
            self.restarts[job] = times + 1
            return True
        self.end_s[job] = now_s
        self.unfinished[job] = why or GIVEN_UP
        return False

    def _saved_s(self, ran_s: float) -> float:
        """Seconds of work that outlast a stop."""
        saves_s = inf if self._saves_s is None else self._saves_s
        return 0.0 if saves_s == inf else ran_s // saves_s * saves_s

    def is_over(self, job: int, start: int) -> bool:
        """True if an event is of a start that was cut short."""
        return self.restarts.get(job, 0) != start or job in self.unfinished

    def _holds(self, gpus: int, now_s: float) -> None:
        """GPUs were taken or given back; where nothing stops jobs, starts and ends tell it."""
        if self._saves_s is not None:
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
        order = np.argsort(times, kind="stable")
        times, used = times[order], np.cumsum(steps[order])
        last = np.append(np.diff(times) > 0, np.True_)  # of all that happens at one time
        return times[last], used[last]


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
