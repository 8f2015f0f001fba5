"""Replays a trace under one rule, from event to event: submissions, ends, and nothing between."""

from collections.abc import Callable
from heapq import heappop
from math import inf

import numpy as np

from slurm_ext.core.errors import InputError
from slurm_ext.policy.queue.order import QueuedJobs, Rule
from slurm_ext.simulate.queue.cluster import Cluster, fitted
from slurm_ext.simulate.queue.job_columns import JobColumns, result_of
from slurm_ext.simulate.queue.nodes import Nodes
from slurm_ext.simulate.queue.pool import NonPreemptingPool
from slurm_ext.simulate.queue.pool_preempting import PreemptingPool
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Column, Trace

DEPTH = 500  # waiting jobs that backfill looks at: bf_max_job_test's default, slurm.conf(5)
PROGRESS_EVERY = 4096  # submissions
Progress = Callable[[int], None]
AnyPool = NonPreemptingPool | PreemptingPool


def replay(
    trace: Trace,
    cluster: Cluster,
    rule: Rule,
    *,
    seed: int = 0,
    depth: int = DEPTH,
    progress: Progress = lambda _jobs: None,
) -> ReplayResult:
    """Replay every job. `seed` decides ties of equal jobs; 0: as the file has them.

    `progress` is called now and then with the number of submitted jobs. Raises InputError where a
    job is larger than its cluster, or the rule needs estimates that the trace lacks.
    """
    fitted(trace, cluster)
    order = rule.order(_asked(trace, rule), _ties(len(trace), seed))
    work = JobColumns(trace.gpus[order], trace.duration_s[order], _limits(trace)[order])
    pools = [_pool(count, cluster.gpus_per_node, rule, work, depth) for count in cluster.pools()]
    rank = np.empty(len(trace), dtype=np.int64)
    rank[order] = np.arange(len(trace))
    _run(work, pools, cluster.pool_of(trace)[order], trace.submit_s, rank, progress)
    return result_of(trace, cluster, rule.name, work, rank)


def _run(
    work: JobColumns,
    pools: list[AnyPool],
    pool_of: Column,
    submit_s: Column,
    rank: Column,
    progress: Progress,
) -> None:
    """Handle all that happens at one time, then let the pools concerned start jobs."""
    of = [pools[number] for number in pool_of.tolist()]
    jobs, times = rank.tolist(), [*submit_s.tolist(), inf]
    events, done = work.events, 0
    while done < len(jobs) or events:
        now_s = min(times[done], events[0][0]) if events else times[done]
        touched: dict[AnyPool, None] = {}
        while events and events[0][0] <= now_s:
            _, job, number = heappop(events)
            of[job].event(job, number, now_s)
            touched[of[job]] = None
        while times[done] <= now_s:
            of[jobs[done]].arrive(jobs[done])
            touched[of[jobs[done]]] = None
            done += 1
            if done % PROGRESS_EVERY == 0:
                progress(done)
        for pool in touched:
            pool.settle(now_s)


def _pool(nodes: int, per_node: int, rule: Rule, work: JobColumns, depth: int) -> AnyPool:
    if rule.preempting is not None:
        return PreemptingPool(Nodes(nodes, per_node), work, depth, rule.preempting)
    return NonPreemptingPool(Nodes(nodes, per_node), work, depth if rule.backfill else None)


def _asked(trace: Trace, rule: Rule) -> QueuedJobs:
    """Columns that the rule may know."""
    estimate_s = trace.duration_s if rule.oracle else trace.estimate_s
    missing = np.count_nonzero(~(estimate_s > 0)) if rule.estimated else 0
    if missing:
        raise InputError(
            trace.source,
            f"{rule.name} orders by estimated durations, and {missing} jobs have none: give a"
            " column estimate_s over 0, or --estimates FILE with the columns job and estimate_s",
        )
    return QueuedJobs(submit_s=trace.submit_s, gpus=trace.gpus, estimate_s=estimate_s)


def _limits(trace: Trace) -> Column:
    """For how long Slurm would think that each runs: its limit; where it has none, exactly."""
    known = np.maximum(trace.limit_s, trace.duration_s)  # Slurm ends a job at its limit
    limits: Column = np.where(np.isnan(trace.limit_s), trace.duration_s, known)
    return limits


def _ties(count: int, seed: int) -> Column:
    return np.random.default_rng(seed).permutation(count) if seed else np.arange(count)
