"""Replays a trace under one rule, from event to event: submissions, ends, and nothing between.

A rule's run times are the trace's estimates, or a RunTimePredictor's, which hears of submissions,
starts and ends in this same replay. Estimates made before it would know jobs that ended in the
trace, although they could not have started here yet.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop
from math import inf

import numpy as np

from slurm_ext.core.errors import InputError
from slurm_ext.policy.queue.order import QueuedJobs, Rule
from slurm_ext.simulate.planning.levels import Levels
from slurm_ext.simulate.planning.rooms import Rooms
from slurm_ext.simulate.planning.scheduling import Scheduling, exact
from slurm_ext.simulate.queue.cluster import Cluster, fitted
from slurm_ext.simulate.queue.job_columns import JobColumns, result_of
from slurm_ext.simulate.queue.nodes import Nodes
from slurm_ext.simulate.queue.pool import NonPreemptingPool
from slurm_ext.simulate.queue.pool_planning import PlanningPool
from slurm_ext.simulate.queue.pool_preempting import PreemptingPool
from slurm_ext.simulate.queue.rooms import rooms_on, sizes_of
from slurm_ext.simulate.queue.stateful import Stateful
from slurm_ext.simulate.queue.waiting_jobs import Portraits
from slurm_ext.simulate.queue.waiting_order import AnyPool, RunTimePredictor, WaitingOrder
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Column, Trace

DEPTH = 500  # waiting jobs that backfill looks at: bf_max_job_test's default, slurm.conf(5)
PROGRESS_EVERY = 4096  # submissions
Progress = Callable[[int], None]


def replay(
    trace: Trace,
    cluster: Cluster,
    rule: Rule,
    *,
    predictor: RunTimePredictor | None = None,
    seed: int = 0,
    depth: int = DEPTH,
    scheduling: Scheduling | None = None,
    progress: Progress = lambda _jobs: None,
) -> ReplayResult:
    """Replay every job. `seed` decides ties of equal jobs; 0: as the file has them.

    `scheduling`: how backfill keeps room; None: for the first of the queue alone, at every event.
    A predictor's run times replace the trace's estimates; it needs the file's ties. `progress` is
    called now and then with the number of submitted jobs. Raises InputError where a job is larger
    than its cluster, or the rule needs estimates that the trace lacks.
    """
    fitted(trace, cluster)
    order = np.lexsort((_ties(len(trace), seed), trace.submit_s))
    jobs = _queued(trace, rule, order, predicted=predictor is not None)
    work = JobColumns(trace.gpus[order], trace.duration_s[order], _limits(trace)[order])
    if scheduling is None and cluster.layout is not None:
        scheduling = exact(1, depth)  # the plain pool has equal nodes
    numbers_of_pools = cluster.pool_of(trace)[order]
    pools: list[AnyPool] = (
        [_pool(nodes, cluster, rule, work, depth) for nodes in cluster.pools()]
        if scheduling is None or rule.preempting is not None
        else _planning(cluster, rule, work, rooms_on(cluster, trace, order), scheduling)
    )
    pool_of = [pools[number] for number in numbers_of_pools.tolist()]
    portraits = Portraits(trace, order, jobs)
    stateful = _stateful(rule, portraits, cluster)
    waiting = WaitingOrder(rule, jobs, work, portraits, stateful)
    _Run(work, pool_of, waiting, predictor, stateful).all(progress)
    numbers = np.empty(len(trace), dtype=np.int64)
    numbers[order] = np.arange(len(trace))
    return result_of(trace, cluster, rule.name, work, numbers)


def _stateful(rule: Rule, portraits: Portraits, cluster: Cluster) -> Stateful | None:
    return None if rule.stateful is None else Stateful(rule.stateful(), portraits, cluster)


class _Run:
    """One replay. Jobs by number: without a seed, the place in the trace."""

    def __init__(
        self,
        work: JobColumns,
        pool_of: Sequence[AnyPool],
        order: WaitingOrder,
        predictor: RunTimePredictor | None,
        stateful: Stateful | None,
    ) -> None:
        self._work, self._pool_of, self._order = work, pool_of, order
        self._predictor, self._stateful = predictor, stateful
        self._touched: dict[AnyPool, None] = {}
        self._wakes: dict[AnyPool, float] = {}  # when pools look again, though nothing happens

    def all(self, progress: Progress) -> None:
        """Handle all that happens at one time, then let the pools concerned start jobs."""
        times, events, done = [*self._order.submit_s, inf], self._work.events, 0
        while done < len(self._pool_of) or events or self._wakes:
            now_s = min(times[done], events[0][0]) if events else times[done]
            if self._wakes:
                now_s = self._wake(now_s)
            self._end(now_s)
            first = done
            while times[done] <= now_s:
                done += 1
                if done % PROGRESS_EVERY == 0:
                    progress(done)
            self._submit(range(first, done), now_s)
            self._settle(now_s)

    def _wake(self, now_s: float) -> float:
        """The next time at which something is to be done; pools that wake then are looked at."""
        now_s = min(now_s, *self._wakes.values())
        self._touched |= {pool: None for pool, when_s in self._wakes.items() if when_s <= now_s}
        return now_s

    def _end(self, now_s: float) -> None:
        events = self._work.events
        while events and events[0][0] <= now_s:
            _, job, start = heappop(events)
            self._pool_of[job].event(job, start, now_s)
            self._touched[self._pool_of[job]] = None
            for one in (self._predictor, self._stateful):
                if one is not None:
                    one.ended(job, now_s)

    def _submit(self, jobs: range, now_s: float) -> None:
        if self._predictor is not None and jobs:
            self._order.predict(jobs, self._predictor.submitted(jobs, now_s))
        for job in jobs:
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
        for job in self._work.newly_started():
            for one in (self._predictor, self._stateful):
                if one is not None:
                    one.started(job, now_s)

    def _revise(self, seconds: Mapping[int, float], now_s: float) -> None:
        self._order.predict([*seconds], [*seconds.values()])
        for job in seconds:
            pool = self._pool_of[job]
            self._order.move(job, pool, now_s)
            self._touched[pool] = None


def _pool(size: int, cluster: Cluster, rule: Rule, work: JobColumns, depth: int) -> AnyPool:
    nodes = Nodes(size, cluster.gpus_per_node)
    if rule.preempting is not None:
        return PreemptingPool(nodes, work, depth, rule.preempting)
    return NonPreemptingPool(nodes, work, depth if rule.backfill else None)


def _planning(
    cluster: Cluster, rule: Rule, work: JobColumns, rooms: Rooms, scheduling: Scheduling
) -> list[AnyPool]:
    return [
        PlanningPool(Levels(sizes), work, rooms, scheduling, backfill=rule.backfill)
        for sizes in sizes_of(cluster)
    ]


def _queued(trace: Trace, rule: Rule, order: Column, *, predicted: bool) -> QueuedJobs:
    """Columns that the rule may know; the predictions come with the submissions."""
    estimate_s = trace.duration_s if rule.oracle else trace.estimate_s
    missing = np.count_nonzero(~(estimate_s > 0)) if rule.estimated and not predicted else 0
    if missing:
        raise InputError(
            trace.source,
            f"{rule.name} orders by estimated durations, and {missing} jobs have none: give a"
            " column estimate_s over 0, or --estimates FILE with the columns job and estimate_s",
        )
    estimates = np.full(len(trace), np.nan) if predicted else estimate_s
    return QueuedJobs(
        submit_s=trace.submit_s[order], gpus=trace.gpus[order], estimate_s=estimates[order]
    )


def _limits(trace: Trace) -> Column:
    """For how long Slurm would think that each runs: its limit; where it has none, exactly."""
    known = np.maximum(trace.limit_s, trace.duration_s)  # Slurm ends a job at its limit
    limits: Column = np.where(np.isnan(trace.limit_s), trace.duration_s, known)
    return limits


def _ties(count: int, seed: int) -> Column:
    return np.random.default_rng(seed).permutation(count) if seed else np.arange(count)
