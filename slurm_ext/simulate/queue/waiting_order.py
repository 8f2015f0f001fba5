"""Ranks of waiting jobs in a replay: from what is predicted of them, and from how long they wait.

The rule's own function gives the keys, of one job at its submission as of a whole queue whose lead
has changed (policy/queue/ageing.py).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from slurm_ext.policy.queue.ageing import LongestWait
from slurm_ext.policy.queue.order import QueuedJobs, Rule
from slurm_ext.simulate.queue.job_columns import JobColumns
from slurm_ext.simulate.queue.pool import NonPreemptingPool
from slurm_ext.simulate.queue.pool_planning import PlanningPool
from slurm_ext.simulate.queue.pool_preempting import PreemptingPool
from slurm_ext.simulate.queue.rank import number_of, ranks
from slurm_ext.simulate.queue.stateful import Stateful
from slurm_ext.simulate.queue.waiting_jobs import Portraits

LeavingPool = NonPreemptingPool | PlanningPool  # jobs that run are left alone
AnyPool = LeavingPool | PreemptingPool


class RunTimePredictor(Protocol):
    """Jobs are places in the trace, times seconds since the first submission."""

    def submitted(self, jobs: Sequence[int], now_s: float) -> Sequence[float]:
        """Predict seconds of each job, above 0."""

    def started(self, job: int, now_s: float) -> None:
        """Note that the job runs from now on."""

    def ended(self, job: int, now_s: float) -> None:
        """Note that the job's run time is known from now on."""

    def revised(self, now_s: float) -> Iterable[tuple[int, float]]:
        """Waiting jobs whose prediction has changed, and the new seconds."""


class WaitingOrder:
    """The ranks of one replay's jobs, by number; `jobs.estimate_s` follows the predictions."""

    def __init__(
        self,
        rule: Rule,
        jobs: QueuedJobs,
        work: JobColumns,
        portraits: Portraits,
        stateful: Stateful | None = None,
    ) -> None:
        self._portraits = portraits
        self._rule, self._jobs, self._work, self._stateful = rule, jobs, work, stateful
        self._predicted = False
        self.submit_s: list[float] = jobs.submit_s.tolist()
        count = len(self.submit_s)
        self._ranks = [0] * count if stateful else self._computed(range(count), 0.0, 0.0)
        self._next_s: dict[AnyPool, float] = {}  # when a stateful policy is asked again
        self._longest = LongestWait()
        self._leads: dict[AnyPool, float] = {}
        self._arrived: dict[AnyPool, deque[int]] = {}

    def looks_beside(self) -> bool:
        """True if a function gives a job another key without the jobs that come later.

        To be asked before the replay: the first keys are of the whole trace.
        """
        earlier = range(len(self.submit_s) // 2)
        if not (self._rule.wide and earlier):
            return False
        return self._computed(earlier, 0.0, 0.0) != self._ranks[: len(earlier)]

    def predict(self, jobs: Sequence[int], seconds: Sequence[float]) -> None:
        """Take predictions of jobs; those that wait already keep their place until `move`."""
        self._predicted = True
        self._jobs.estimate_s[np.asarray(jobs, dtype=np.int64)] = seconds

    def enter(self, job: int, pool: AnyPool, now_s: float) -> int:
        """Return the rank of a new job in its pool's queue."""
        if self._rule.ageing or self._predicted or self._stateful:
            self._rank([job], pool, now_s)
        if self._rule.ageing:
            self._arrived.setdefault(pool, deque()).append(job)
        return self._ranks[job]

    def put_back(self, job: int, pool: AnyPool, now_s: float) -> None:
        """A job that had started waits again: since now, as Slurm counts its age."""
        self._jobs.submit_s[job] = now_s
        self._rank([job], pool, now_s)

    def move(self, job: int, pool: AnyPool, now_s: float) -> None:
        """Move a waiting job to where its new prediction puts it."""
        before = self._ranks[job]
        self._rank([job], pool, now_s)
        if not isinstance(pool, PreemptingPool):
            pool.again(before, self._ranks[job])

    def age(self, pool: AnyPool, now_s: float) -> None:
        """Update the order of a pool's queue if the lead of small jobs has changed since.

        A stateful policy is asked again where its keys have become too old.
        """
        if isinstance(pool, PreemptingPool):
            return
        if self._stateful and now_s >= self._next_s.setdefault(pool, 0.0):
            self._next_s[pool] = now_s + self._stateful.every_s
            self._reorder(pool, now_s)
        if not self._rule.ageing:
            return
        self._longest = self._longest.seen(now_s - self._oldest_s(pool, now_s), now_s)
        lead_s = self._longest.lead_s(now_s)
        if lead_s != self._leads.get(pool, 0.0):
            self._leads[pool] = lead_s
            self._reorder(pool, now_s)

    def _reorder(self, pool: LeavingPool, now_s: float) -> None:
        waiting = [number_of(rank) for rank in pool.ranks()]
        self._rank(waiting, pool, now_s)
        pool.reorder([self._ranks[job] for job in waiting])

    def _oldest_s(self, pool: AnyPool, now_s: float) -> float:
        """Submission of the job that waits longest; now, if none waits."""
        arrived = self._arrived.get(pool, deque())
        while arrived and self._work.has_started(arrived[0]):
            arrived.popleft()
        return self.submit_s[arrived[0]] if arrived else now_s

    def _rank(self, jobs: Sequence[int], pool: AnyPool, now_s: float) -> None:
        computed = self._computed(jobs, self._leads.get(pool, 0.0), now_s)
        for job, rank in zip(jobs, computed, strict=True):
            self._ranks[job] = rank

    def _computed(self, jobs: Sequence[int], lead_s: float, now_s: float) -> list[int]:
        which = np.asarray(jobs, dtype=np.int64)
        if self._stateful:
            return ranks(self._stateful.keys(which, now_s), jobs)
        if self._rule.wide:
            return ranks(self._rule.key(self._portraits.some(which, now_s), lead_s), jobs)
        submit_s, gpus = self._jobs.submit_s[which], self._jobs.gpus[which]
        some = QueuedJobs(submit_s=submit_s, gpus=gpus, estimate_s=self._jobs.estimate_s[which])
        return ranks(self._rule.key(some, lead_s), jobs)
