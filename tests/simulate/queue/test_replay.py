"""Replays against a second, plain simulator, and laws that hold whatever the policy."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.core.errors import InputError
from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.queue.cluster import Cluster, fitted
from slurm_ext.simulate.queue.engine import DEPTH, replay
from slurm_ext.simulate.replay_result import ReplayResult
from tests.simulate.queue import slow_simulator
from tests.simulate.traces import Job, jobs, trace_of

STILL = ("fifo", "fifo+backfill", "fewest", "shortest", "shortest+backfill", "qssf+backfill+ageing")
PREEMPTING = ("srtf", "tiresias")
KEYS: dict[str, Callable[[Job, int], tuple[float, ...]]] = {
    "fifo": lambda job, number: (job[0], number),
    "fewest": lambda job, number: (job[2], job[0], number),
    "shortest": lambda job, number: (job[1] * job[2], job[0], number),
}


def replayed(
    rows: list[Job], policy: str, cluster: Cluster, seed: int = 0, depth: int = DEPTH
) -> ReplayResult:
    """One replay."""
    return replay(trace_of(rows), cluster, rule_of(policy), seed=seed, depth=depth)


@pytest.mark.parametrize("backfill", [False, True])
@pytest.mark.parametrize("order", list(KEYS))
@given(rows=jobs(8))
@settings(max_examples=40, deadline=None)
def test_starts_are_those_of_a_plain_simulator(rows: list[Job], order: str, backfill: bool) -> None:
    """On one node every job starts in the very second that the second simulator says."""
    rows = sorted(rows, key=lambda job: job[0])
    expected = slow_simulator.starts(
        rows, 8, lambda number: KEYS[order](rows[number], number), backfill=backfill
    )
    first = rows[0][0]
    policy = order + ("+backfill" if backfill else "")
    trace = trace_of([(submit - first, *rest) for submit, *rest in rows])  # type: ignore[misc]
    outcome = replay(trace, Cluster(nodes=1, gpus_per_node=8), rule_of(policy))
    assert [start + first for start in outcome.start_s.tolist()] == expected


@pytest.mark.parametrize("policy", STILL + PREEMPTING)
@given(rows=jobs(12), nodes=st.integers(3, 4))
@settings(max_examples=25, deadline=None)
def test_nothing_is_lost_and_nothing_invented(rows: list[Job], policy: str, nodes: int) -> None:
    """GPU-seconds add up, no GPU is used twice, nobody starts before submission or ends early."""
    cluster = Cluster(nodes=nodes, gpus_per_node=4)
    outcome = replayed(rows, policy, cluster)
    trace = trace_of(rows)
    work = float(np.sum(trace.duration_s * trace.gpus))
    assert outcome.used.max() <= cluster.gpus
    assert outcome.used.min() >= 0
    assert outcome.used[-1] == 0
    assert (outcome.start_s >= trace.submit_s).all()
    assert (outcome.end_s >= outcome.start_s + trace.duration_s - 1e-6).all()
    paid = sum(30.0 * trace.gpus[int(job)] * times for job, times in outcome.restarts.items())
    if outcome.restarts:
        assert work - 1e-6 <= outcome.used_gpu_s <= work + paid + 1e-6
    else:
        assert outcome.used_gpu_s == pytest.approx(work)


@pytest.mark.parametrize("policy", STILL)
@given(rows=jobs(12))
@settings(max_examples=20, deadline=None)
def test_a_job_that_started_is_left_alone(rows: list[Job], policy: str) -> None:
    """Without preemption a job ends its run time after its start."""
    outcome = replayed(rows, policy, Cluster(nodes=3, gpus_per_node=4))
    assert outcome.end_s == pytest.approx(outcome.start_s + outcome.duration_s)


@given(rows=jobs(12))
@settings(max_examples=40, deadline=None)
def test_strict_fifo_starts_in_order(rows: list[Job]) -> None:
    """Nobody starts before somebody who was submitted earlier."""
    outcome = replayed(rows, "fifo", Cluster(nodes=3, gpus_per_node=4))
    assert (np.diff(outcome.start_s) >= 0).all()


@given(rows=jobs(4), wide=st.integers(1, 12), nodes=st.integers(3, 4))
@settings(max_examples=40, deadline=None)
def test_backfill_never_puts_off_the_first(rows: list[Job], wide: int, nodes: int) -> None:
    """With durations known, whoever waits first starts no later than if nobody came after him."""
    rows = sorted([*rows, (15.0, 5.0, wide)], key=lambda job: job[0])
    cluster = Cluster(nodes=nodes, gpus_per_node=4)
    outcome = replayed(rows, "fifo+backfill", cluster)
    waiting = [i for i in range(len(rows)) if outcome.start_s[i] > rows[i][0] - rows[0][0]]
    if not waiting:
        return
    head = waiting[0]  # everybody before started at submission: alone he is the first
    alone = replayed(rows[: head + 1], "fifo+backfill", cluster)
    assert outcome.start_s[head] <= alone.start_s[head]


def test_a_long_job_may_run_beside_a_reservation() -> None:
    """Backfill takes GPUs that the reservation does not need, however long the job is."""
    rows = [(0.0, 100.0, 6), (1.0, 50.0, 4), (2.0, 9999.0, 2), (3.0, 9999.0, 1)]
    outcome = replayed(rows, "fifo+backfill", Cluster(nodes=1, gpus_per_node=8))
    assert outcome.start_s.tolist() == [0, 100, 2, 100]


def test_limits_decide_where_the_trace_has_them() -> None:
    """Backfill plans with the time limit, as Slurm does; a job that ends early frees its place."""
    rows = [(0.0, 10.0, 8), (1.0, 5.0, 8), (2.0, 5.0, 1)]
    trace = trace_of(rows, limits=[100.0, 5.0, 50.0])
    outcome = replay(trace, Cluster(nodes=1, gpus_per_node=8), rule_of("fifo+backfill"))
    assert outcome.start_s.tolist() == [0, 10, 15]


def test_a_job_is_put_on_as_few_nodes_as_it_can_be() -> None:
    """Four GPUs that are free on two nodes are no place for a job of four."""
    rows = [(0.0, 10.0, 2), (0.0, 20.0, 3), (1.0, 5.0, 4)]
    outcome = replayed(rows, "fifo", Cluster(nodes=2, gpus_per_node=4))
    assert outcome.start_s.tolist() == [0, 0, 10]


def test_the_shortest_left_pushes_out_and_pays() -> None:
    """A small job preempts a large one, which ends later by that run and by one restart."""
    outcome = replayed(
        [(0.0, 1000.0, 4), (10.0, 20.0, 4)], "srtf", Cluster(nodes=1, gpus_per_node=4)
    )
    assert outcome.end_s.tolist() == [1050, 30]
    assert dict(outcome.restarts) == {"0": 1}


def test_tiresias_lets_a_newcomer_past_whoever_had_enough() -> None:
    """After 16 GPU-hours a job gives way to a new one; before that it does not."""
    hours = 3600.0
    rows = [(0.0, 10 * hours, 4), (1 * hours, 1 * hours, 4)]
    outcome = replayed(rows, "tiresias", Cluster(nodes=1, gpus_per_node=4))
    assert outcome.start_s.tolist() == [0, 4 * hours]
    assert outcome.end_s.tolist() == [11 * hours + 30, 5 * hours]


@pytest.mark.parametrize("policy", STILL + PREEMPTING)
def test_a_seed_decides_ties_and_nothing_else(policy: str) -> None:
    """The same seed gives the same replay."""
    rows = [(float(i // 5), float(1 + i % 3), 1 + i % 4) for i in range(60)]
    cluster = Cluster(nodes=2, gpus_per_node=4)
    first, second = (replayed(rows, policy, cluster, seed=7) for _ in range(2))
    assert first.start_s.tolist() == second.start_s.tolist()


def test_virtual_clusters_do_not_lend() -> None:
    """A job waits for its own virtual cluster, whatever is free in another."""
    trace = trace_of([(0.0, 10.0, 4), (0.0, 10.0, 4), (0.0, 10.0, 4)])
    trace = replace(trace, vcs=("a", "b"), vc=np.array([0, 0, 1]))
    cluster = Cluster(nodes=2, gpus_per_node=4, vcs={"a": 1, "b": 1})
    assert replay(trace, cluster, rule_of("fifo")).start_s.tolist() == [0, 10, 0]


def test_a_job_larger_than_the_cluster_is_told() -> None:
    """It is an error that names the job, or counted when it is left out on request."""
    trace = trace_of([(0.0, 1.0, 4), (1.0, 1.0, 9)])
    cluster = Cluster(nodes=1, gpus_per_node=8)
    with pytest.raises(InputError, match="job 1 asks for 9 GPUs"):
        replay(trace, cluster, rule_of("fifo"))
    left = fitted(trace, cluster, leave_out=True)
    assert (left.job, dict(left.repairs)) == (("0",), {"left out: larger than its cluster": 1})


def test_backfill_looks_only_so_deep() -> None:
    """With a depth of one, only one job is looked at: the first."""
    rows = [(0.0, 10.0, 3), (1.0, 10.0, 4), (2.0, 1.0, 1)]
    cluster = Cluster(nodes=1, gpus_per_node=4)
    assert replayed(rows, "fifo+backfill", cluster, depth=1).start_s.tolist() == [0, 10, 20]
    assert replayed(rows, "fifo+backfill", cluster, depth=2).start_s.tolist() == [0, 10, 2]
