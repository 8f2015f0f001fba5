"""Replays a trace under one rule, from event to event: submissions, ends, and nothing between.

A rule's run times are the trace's estimates, or a RunTimePredictor's, which hears of submissions,
starts and ends in this same replay. Estimates made before it would know jobs that ended in the
trace, although they could not have started here yet.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from slurm_ext.core.errors import InputError
from slurm_ext.policy.queue.order import QueuedJobs, Rule
from slurm_ext.simulate.limits.budgets import Budgets, unlimited
from slurm_ext.simulate.limits.limited_trace import LimitedTrace
from slurm_ext.simulate.limits.preemption import Preemption, preemption_of
from slurm_ext.simulate.limits.site_limits import Limits
from slurm_ext.simulate.outages.nodes_there import NodesThere
from slurm_ext.simulate.outages.outages import Outages
from slurm_ext.simulate.planning.levels import Levels
from slurm_ext.simulate.planning.preemption_conf import PreemptionConf
from slurm_ext.simulate.planning.rooms import Rooms
from slurm_ext.simulate.planning.scheduling import Scheduling, exact
from slurm_ext.simulate.queue.cluster import Cluster, fitted
from slurm_ext.simulate.queue.job_columns import JobColumns, result_of
from slurm_ext.simulate.queue.nodes import Nodes
from slurm_ext.simulate.queue.pool import NonPreemptingPool
from slurm_ext.simulate.queue.pool_planning import PlanningPool
from slurm_ext.simulate.queue.pool_preempting import PreemptingPool
from slurm_ext.simulate.queue.rooms import partitions_of, rooms_on, sizes_of
from slurm_ext.simulate.queue.run import Progress, Run
from slurm_ext.simulate.queue.stateful import Stateful
from slurm_ext.simulate.queue.waiting_jobs import Portraits
from slurm_ext.simulate.queue.waiting_order import AnyPool, RunTimePredictor, WaitingOrder
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Column, Trace

DEPTH = 500  # waiting jobs that backfill looks at: bf_max_job_test's default, slurm.conf(5)
LOOKS_BESIDE = (
    "{} gives a job another key when other jobs stand beside it: a function is asked about the"
    " whole trace, jobs to come included; a class is not"
)


def replay(
    trace: Trace,
    cluster: Cluster,
    rule: Rule,
    *,
    predictor: RunTimePredictor | None = None,
    seed: int = 0,
    depth: int = DEPTH,
    scheduling: Scheduling | None = None,
    limits: Limits | None = None,
    outages: Outages | None = None,
    preemption: PreemptionConf | None = None,
    saves_s: float = inf,
    progress: Progress = lambda _jobs: None,
) -> ReplayResult:
    """Replay every job. `seed` decides ties of equal jobs (0: as the file has them) and failures.

    `scheduling`: how backfill keeps room; None: for the first of the queue alone, at every event.
    `saves_s`: how often jobs save their work, for when they are stopped; inf: they begin anew.
    A predictor's run times replace the trace's estimates; it needs the file's ties. `progress` is
    called now and then with the number of submitted jobs. Raises InputError where a job is larger
    than its cluster, or the rule needs estimates that the trace lacks.
    """
    fitted(trace, cluster)
    if rule.preempting is not None and (limits or outages or preemption):
        raise InputError(trace.source, f"{rule.name} preempts: without limits and failures")
    order = np.lexsort((_ties(len(trace), seed), trace.submit_s))
    jobs = _queued(trace, rule, order, predicted=predictor is not None)
    columns = trace.gpus[order], trace.duration_s[order], _limits(trace)[order]
    stops = bool(limits or preemption or (outages and outages.failures))
    work = JobColumns(*columns, saves_s if stops else None)
    budgets = (
        LimitedTrace(trace, limits).budgets(order, work.limit_s)
        if limits
        else unlimited(len(trace))
    )
    gives = (
        preemption_of(trace, order, preemption, limits.table if limits else None)
        if preemption
        else None
    )
    if scheduling is None and (cluster.layout is not None or limits or outages or preemption):
        scheduling = exact(1, depth)  # the plain pool has equal nodes, which never change
    pools: list[AnyPool] = (
        [_pool(nodes, cluster, rule, work, depth) for nodes in cluster.pools()]
        if scheduling is None or rule.preempting is not None
        else _planning(
            cluster,
            rule,
            work,
            rooms_on(cluster, trace, order),
            scheduling,
            _nodes(trace, cluster, outages, seed, work),
            budgets,
            gives,
        )
    )
    pool_of = [pools[number] for number in cluster.pool_of(trace)[order].tolist()]
    portraits = Portraits(trace, order, jobs)
    stateful = _stateful(rule, portraits, cluster)
    waiting = WaitingOrder(rule, jobs, work, portraits, stateful)
    notes = (LOOKS_BESIDE.format(rule.name),) if waiting.looks_beside() else ()
    Run(work, pool_of, waiting, predictor, stateful, budgets, outages, gives).all(progress)
    numbers = np.empty(len(trace), dtype=np.int64)
    numbers[order] = np.arange(len(trace))
    return replace(result_of(trace, cluster, rule.name, work, numbers), notes=notes)


def _stateful(rule: Rule, portraits: Portraits, cluster: Cluster) -> Stateful | None:
    return None if rule.stateful is None else Stateful(rule.stateful(), portraits, cluster)


def _pool(size: int, cluster: Cluster, rule: Rule, work: JobColumns, depth: int) -> AnyPool:
    nodes = Nodes(size, cluster.gpus_per_node)
    if rule.preempting is not None:
        return PreemptingPool(nodes, work, depth, rule.preempting)
    return NonPreemptingPool(nodes, work, depth if rule.backfill else None)


def _planning(
    cluster: Cluster,
    rule: Rule,
    work: JobColumns,
    rooms: Rooms,
    scheduling: Scheduling,
    nodes: Sequence[NodesThere],
    budgets: Budgets,
    gives: Preemption | None,
) -> list[AnyPool]:
    same = work, rooms, scheduling
    return [
        PlanningPool(Levels(sizes), *same, there, budgets, gives, backfill=rule.backfill)
        for sizes, there in zip(sizes_of(cluster), nodes, strict=True)
    ]


def _nodes(
    trace: Trace, cluster: Cluster, outages: Outages | None, seed: int, work: JobColumns
) -> list[NodesThere]:
    """The nodes of each pool, and what becomes of them."""
    pools = zip(sizes_of(cluster), partitions_of(cluster), strict=True)
    return [
        NodesThere(
            outages.changes(pool, len(sizes), names, trace.first_s, seed) if outages else (),
            work.out,
        )
        for pool, (sizes, names) in enumerate(pools)
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
    at_least = np.maximum(trace.limit_s, trace.duration_s)  # Slurm ends a job at its limit
    limits: Column = np.where(np.isnan(trace.limit_s), trace.duration_s, at_least)
    return limits


def _ties(count: int, seed: int) -> Column:
    return np.random.default_rng(seed).permutation(count) if seed else np.arange(count)
