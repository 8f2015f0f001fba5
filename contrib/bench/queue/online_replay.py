"""Replay of a trace whose run times are predicted inside the replay, as a live queue predicts them.

The rule's run times come from a RunTimePredictor, which is called at submissions, starts and ends
of this same replay, and may change its prediction while a job waits. Estimates made before the
replay would know jobs that ended in the trace, although they could not have started here yet.

A rank is the rule's key, then the place in the trace, as one integer: bits of a float of 0 or more
are in the order of its value.
"""

import struct
from collections.abc import Iterable, Sequence
from heapq import heappop
from math import inf
from typing import Protocol

import numpy as np

from slurm_ext.policy.queue.order import QueuedJobs, Rule
from slurm_ext.simulate.queue.cluster import Cluster, fitted
from slurm_ext.simulate.queue.engine import DEPTH
from slurm_ext.simulate.queue.job_columns import JobColumns, result_of
from slurm_ext.simulate.queue.nodes import Nodes
from slurm_ext.simulate.queue.pool import NonPreemptingPool
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Column, Trace

PLACES = 32  # bits of a rank that hold the place in the trace
NOTHING = np.zeros(0)


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


def replay_online(
    trace: Trace, cluster: Cluster, rule: Rule, predictor: RunTimePredictor, *, depth: int = DEPTH
) -> ReplayResult:
    """Replay every job. Raises InputError if a job is larger than its cluster."""
    fitted(trace, cluster)
    work = _Work(predictor)
    run = _Run(trace, cluster, rule, work, depth)
    times, done = [*trace.submit_s.tolist(), inf], 0
    while done < len(trace) or work.events:
        now_s = min(times[done], work.events[0][0]) if work.events else times[done]
        run.ended(now_s)
        first = done
        while times[done] <= now_s:
            done += 1
        run.submitted(range(first, done), now_s)
        run.settle(now_s)
    return run.outcome()


class _Work(JobColumns):
    """Columns by rank of submitted jobs; starts are passed on to the predictor."""

    def __init__(self, predictor: RunTimePredictor) -> None:
        super().__init__(NOTHING, NOTHING, NOTHING)
        self.gpus, self.duration_s, self.limit_s = {}, {}, {}
        self.start_s, self.end_s, self.expected_s = {}, {}, {}
        self.predictor = predictor

    def begun(self, rank: int, now_s: float) -> None:
        super().begun(rank, now_s)
        self.predictor.started(_place(rank), now_s)


class _Run:
    def __init__(self, trace: Trace, cluster: Cluster, rule: Rule, work: _Work, depth: int) -> None:
        self._trace, self._cluster, self._rule, self._work = trace, cluster, rule, work
        own = depth if rule.backfill else None
        pools = [
            NonPreemptingPool(Nodes(count, cluster.gpus_per_node), work, own)
            for count in cluster.pools()
        ]
        self._pools = [pools[number] for number in cluster.pool_of(trace).tolist()]
        self._ranks = [0] * len(trace)
        self._touched: dict[NonPreemptingPool, None] = {}

    def ended(self, now_s: float) -> None:
        events = self._work.events
        while events and events[0][0] <= now_s:
            _, rank, number = heappop(events)
            place = _place(rank)
            self._pools[place].event(rank, number, now_s)
            self._touched[self._pools[place]] = None
            self._work.predictor.ended(place, now_s)

    def submitted(self, jobs: Sequence[int], now_s: float) -> None:
        if not jobs:
            return
        predicted_s = self._work.predictor.submitted(jobs, now_s)
        for place, rank in zip(jobs, self._ranked(jobs, predicted_s), strict=True):
            self._know(place, rank)
            self._pools[place].arrive(rank)
            self._touched[self._pools[place]] = None

    def settle(self, now_s: float) -> None:
        """Update the places of waiting jobs; then start all jobs that can start."""
        anew = dict(self._work.predictor.revised(now_s))
        if anew:
            for place, rank in zip(anew, self._ranked([*anew], [*anew.values()]), strict=True):
                self._pools[place].again(self._ranks[place], rank)
                self._know(place, rank)
                self._touched[self._pools[place]] = None
        for pool in self._touched:
            pool.settle(now_s)
        self._touched = {}

    def outcome(self) -> ReplayResult:
        """Columns as `result_of` wants them: by place."""
        trace, ranks = self._trace, self._ranks
        limits = np.array([self._work.limit_s[rank] for rank in ranks])
        work = JobColumns(trace.gpus, trace.duration_s, limits)
        work.start_s = [self._work.start_s[rank] for rank in ranks]
        work.end_s = [self._work.end_s[rank] for rank in ranks]
        return result_of(trace, self._cluster, self._rule.name, work, np.arange(len(trace)))

    def _ranked(self, places: Sequence[int], predicted_s: Sequence[float]) -> list[int]:
        which = np.array(places, dtype=np.int64)
        asked = QueuedJobs(
            submit_s=self._trace.submit_s[which],
            gpus=self._trace.gpus[which],
            estimate_s=np.array(predicted_s, dtype=float),
        )
        keys: Column = self._rule.key(asked)
        return [_rank(key, place) for key, place in zip(keys.tolist(), places, strict=True)]

    def _know(self, place: int, rank: int) -> None:
        """Longest run time as Slurm sees it: the limit, or the exact time if there is none."""
        work, trace = self._work, self._trace
        lasts_s, limit_s = float(trace.duration_s[place]), float(trace.limit_s[place])
        work.gpus[rank], work.duration_s[rank] = int(trace.gpus[place]), lasts_s
        work.limit_s[rank] = max(limit_s, lasts_s) if limit_s == limit_s else lasts_s
        self._ranks[place] = rank


def _rank(key: float, place: int) -> int:
    bits: int = struct.unpack(">q", struct.pack(">d", key + 0.0))[0]
    return bits << PLACES | place


def _place(rank: int) -> int:
    return rank & ((1 << PLACES) - 1)
