"""Backfill that keeps room for several jobs: against a plain second simulator, and its laws."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.planning.levels import Levels, Need
from slurm_ext.simulate.planning.scheduling import Scheduling, exact
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay
from tests.simulate.planning import slow_planner
from tests.simulate.traces import Job, jobs, trace_of

SLURM = Scheduling(interval_s=7, resolution_s=5, step_s=3)
LOOKS = {
    "exact": exact(None, 500),
    "two": exact(2, 500),
    "Slurm's": SLURM,
    "linear": replace(SLURM, linear_s=2, window_s=40),
    "shallow": replace(SLURM, depth=2, queue_depth=1, sched_interval_s=4),
}


@given(rows=jobs(8), most=st.sampled_from([None, 1, 2]))
@settings(max_examples=60, deadline=None)
def test_starts_are_those_of_a_plain_planner(rows: list[Job], most: int | None) -> None:
    """On one node every job starts in the very second that the second planner says."""
    rows = sorted(rows, key=lambda job: job[0])
    first = rows[0][0]
    rows = [(submit - first, *rest) for submit, *rest in rows]  # type: ignore[misc]
    outcome = replay(
        trace_of(rows),
        Cluster(nodes=1, gpus_per_node=8),
        rule_of("fifo+backfill"),
        scheduling=exact(most, 500),
    )
    assert outcome.start_s.tolist() == slow_planner.starts(rows, 8, most)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("policy", ["fifo", "fewest+backfill", "qssf+backfill+ageing"])
@given(rows=jobs(12), nodes=st.integers(3, 4))
@settings(max_examples=20, deadline=None)
def test_no_look_loses_or_invents_anything(
    rows: list[Job], nodes: int, policy: str, look: str
) -> None:
    """Whatever Slurm's parameters: all jobs run once, for their time, and no GPU is used twice."""
    trace = trace_of(rows)
    cluster = Cluster(nodes=nodes, gpus_per_node=4)
    outcome = replay(trace, cluster, rule_of(policy), scheduling=LOOKS[look])
    assert (outcome.start_s >= trace.submit_s).all()
    assert outcome.end_s == pytest.approx(outcome.start_s + trace.duration_s)
    assert 0 <= outcome.used.min() <= outcome.used.max() <= cluster.gpus
    assert outcome.used_gpu_s == pytest.approx(float(np.sum(trace.duration_s * trace.gpus)))


def test_the_second_in_line_has_room_kept_too() -> None:
    """The last job would put off the one before it: that counts only where that has a promise."""
    rows = [(0.0, 100.0, 4), (0.0, 30.0, 3), (1.0, 50.0, 8), (2.0, 60.0, 4), (3.0, 50.0, 1)]
    cluster = Cluster(nodes=2, gpus_per_node=4)
    started = {
        most: replay(
            trace_of(rows), cluster, rule_of("fifo+backfill"), scheduling=exact(most, 500)
        ).start_s.tolist()
        for most in (1, None)
    }
    assert started == {1: [0, 0, 100, 150, 3], None: [0, 0, 100, 30, 150]}


def test_backfill_waits_for_its_round() -> None:
    """Behind a job that waits nobody starts before the next multiple of bf_interval."""
    rows = [(0.0, 100.0, 6), (1.0, 50.0, 4), (2.0, 5.0, 2)]
    cluster = Cluster(nodes=1, gpus_per_node=8)
    outcome = replay(trace_of(rows), cluster, rule_of("fifo+backfill"), scheduling=Scheduling())
    assert outcome.start_s.tolist() == [0, 100, 30]


def test_jobs_that_end_close_together_end_at_once() -> None:
    """Slurm looks ahead in steps: within the first, the earlier end is not seen as one of its own.

    The job of six could start at 20, but is planned for 45: who ends by then goes before.
    """
    rows = [(0.0, 20.0, 4), (0.0, 45.0, 2), (1.0, 100.0, 6), (2.0, 25.0, 2)]
    cluster = Cluster(nodes=1, gpus_per_node=8)
    coarse = replace(exact(None, 500), step_s=30)
    for look, expected in ((exact(None, 500), 45), (coarse, 2)):
        outcome = replay(trace_of(rows), cluster, rule_of("fifo+backfill"), scheduling=look)
        assert outcome.start_s[3] == expected


def test_where_slurm_puts_a_part_of_a_node() -> None:
    """On neighbours that have the least free in all, and there on the node that it fills best."""
    levels = Levels([4, 4, 4, 4, 4, 4])
    levels.take([(0, 2), (1, 1), (2, 4), (4, 4), (5, 1)])  # free: 2, 3, none, 4, none, 3
    one = Need(0, 4, 2)
    everywhere = 0b111111
    assert levels.find(one, everywhere) == [(0, 2)]
    assert levels.find(one, everywhere, packed=False) == [(5, 2)]
    assert levels.find(one, 0b001011, packed=False) == [(3, 2)]
    assert levels.find(one, 0b000011, packed=False) == [(0, 2)]
    assert levels.find(Need(1, 4, 3), everywhere, packed=False) == [(3, 4), (1, 3)]
    assert levels.find(Need(2, 4, 0), everywhere) is None
