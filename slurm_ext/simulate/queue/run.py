"""The events of one replay in their order: ends, nodes that change, submissions, and then starts.

Of one time all are handled first, before the pools concerned start jobs.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf

from slurm_ext.simulate.limits.budgets import Budgets
from slurm_ext.simulate.limits.preemption import Preemption
from slurm_ext.simulate.outages.outages import Outages
from slurm_ext.simulate.queue.job_columns import JobColumns
from slurm_ext.simulate.queue.pool_planning import PlanningPool
from slurm_ext.simulate.queue.stateful import Stateful
from slurm_ext.simulate.queue.waiting_order import AnyPool, RunTimePredictor, WaitingOrder

PROGRESS_EVERY = 4096  # submissions
MOST_IN_VAIN = 100_000  # looks in a row after which nobody started
REQUEUE_S = 121.0  # from a job's stop until it may start again: EligibleTime of 22.05
FAILED, PREEMPTED = "failed with a node", "gave way to another job: cancelled"
Progress = Callable[[int], None]


class Run:
    """One replay. Jobs by number: without a seed, the place in the trace."""

    def __init__(
        self,
        work: JobColumns,
        pool_of: Sequence[AnyPool],
        order: WaitingOrder,
        predictor: RunTimePredictor | None,
        stateful: Stateful | None,
        budgets: Budgets,
        outages: Outages | None,
        preemption: Preemption | None,
    ) -> None:
        self._work, self._pool_of, self._order = work, pool_of, order
        self._predictor, self._stateful = predictor, stateful
        self._budgets, self._failures = budgets, outages.failures if outages else None
        planning = [pool for pool in dict.fromkeys(pool_of) if isinstance(pool, PlanningPool)]
        self._changing = planning if outages else []
        self._counting = planning if budgets.period_s < inf else []
        self._preempting = [(pool, preemption) for pool in planning if preemption]
        self._back: list[tuple[float, int]] = []  # when jobs of failed nodes wait again
        self._in_vain = 0  # looks after which nobody started
        self._touched: dict[AnyPool, None] = {}
        self._wakes: dict[AnyPool, float] = {}  # when pools look again, though nothing happens

    def all(self, progress: Progress) -> None:
        """Handle all that happens at one time, then let the pools concerned start jobs."""
        times, events, done = [*self._order.submit_s, inf], self._work.events, 0
        while done < len(self._pool_of) or events or self._back or self._wakes:
            now_s = min(times[done], events[0][0]) if events else times[done]
            if self._back:
                now_s = min(now_s, self._back[0][0])
            if self._wakes:
                now_s = self._wake(now_s)
            self._budgets.now_s = now_s
            self._end(now_s)
            self._change_nodes(now_s)
            self._end_exhausted(now_s)
            self._return(now_s)
            first = done
            while times[done] <= now_s:
                done += 1
                if done % PROGRESS_EVERY == 0:
                    progress(done)
            self._submit(range(first, done), now_s)
            self._settle(now_s)
            if self._in_vain > MOST_IN_VAIN and done == len(self._pool_of) and not events:
                return  # nodes come and go, and never are there enough

    def _wake(self, now_s: float) -> float:
        """The next time at which something is to be done; pools that wake then are looked at."""
        now_s = min(now_s, *self._wakes.values())
        self._touched |= {pool: None for pool, when_s in self._wakes.items() if when_s <= now_s}
        return now_s

    def _end(self, now_s: float) -> None:
        events = self._work.events
        while events and events[0][0] <= now_s:
            _, job, start = heappop(events)
            self._touched[self._pool_of[job]] = None
            if not self._pool_of[job].event(job, start, now_s):
                continue
            self._budgets.submitted(job, -1)
            for listener in (self._predictor, self._stateful):
                if listener is not None:
                    listener.ended(job, now_s)

    def _change_nodes(self, now_s: float) -> None:
        """Take failed nodes out; their jobs fail, or wait again a little later."""
        fate = "" if self._failures is None or self._failures.requeues else FAILED
        for pool in self._changing:
            for job in pool.nodes_change(now_s):
                self._stopped(job, now_s, fate)

    def _end_exhausted(self, now_s: float) -> None:
        """Stop jobs whose minutes are used up."""
        for pool in self._counting:
            for job, why in pool.exhausted(now_s).items():
                self._stopped(job, now_s, why)

    def _give_way(self, now_s: float) -> None:
        """Put jobs that gave way back into the queue, or end them."""
        for pool, rules in self._preempting:
            for job in pool.pushed_out():
                requeued = rules.requeues[rules.kind[job]]
                self._stopped(job, now_s, "" if requeued else PREEMPTED)

    def _stopped(self, job: int, now_s: float, why: str) -> None:
        """A running job was stopped; without a reason against it, it waits again."""
        if self._stateful is not None:
            self._stateful.ended(job, now_s)
        if self._work.stopped(job, now_s, why):
            heappush(self._back, (now_s + REQUEUE_S, job))
        else:
            self._budgets.submitted(job, -1)

    def _return(self, now_s: float) -> None:
        while self._back and self._back[0][0] <= now_s:
            job = heappop(self._back)[1]
            self._order.put_back(job, self._pool_of[job], now_s)
            self._wait(job, now_s)

    def _submit(self, jobs: range, now_s: float) -> None:
        if self._predictor is not None and jobs:
            self._order.predict(jobs, self._predictor.submitted(jobs, now_s))
        for job in jobs:
            if why := self._budgets.refusal(job):
                self._work.unfinished[job] = why
                continue
            self._budgets.submitted(job)
            self._wait(job, now_s)

    def _wait(self, job: int, now_s: float) -> None:
        """Put a job into its pool's queue."""
        pool = self._pool_of[job]
        if self._stateful is not None:
            self._stateful.submitted(job, now_s)
        pool.arrive(self._order.enter(job, pool, now_s))
        self._touched[pool] = None

    def _settle(self, now_s: float) -> None:
        """Update the order of the queues concerned; then start all jobs that can start."""
        if self._predictor is not None:
            self._revise(dict(self._predictor.revised(now_s)), now_s)
        for pool in self._touched:
            self._order.age(pool, now_s)
            pool.settle(now_s)
            self._wakes.pop(pool, None)
            if isinstance(pool, PlanningPool) and pool.again_s < inf:
                self._wakes[pool] = pool.again_s
        self._touched = {}
        started = self._work.newly_started()
        self._in_vain = 0 if started else self._in_vain + 1
        for job in started:
            for listener in (self._predictor, self._stateful):
                if listener is not None:
                    listener.started(job, now_s)
        self._give_way(now_s)

    def _revise(self, seconds: Mapping[int, float], now_s: float) -> None:
        self._order.predict([*seconds], [*seconds.values()])
        for job in seconds:
            pool = self._pool_of[job]
            self._order.move(job, pool, now_s)
            self._touched[pool] = None
