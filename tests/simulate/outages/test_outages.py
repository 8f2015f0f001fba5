"""Nodes that fail, and nodes that come and go: by hand, and laws that hold for any."""

from collections.abc import Sequence
from datetime import UTC
from math import inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.core.errors import InputError
from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.outages.failures import Failures
from slurm_ext.simulate.outages.node_change import Closing, NodeChange, NodeEvent, node_changes
from slurm_ext.simulate.outages.node_counts import (
    NodeCount,
    check_counts,
    outside,
    read_node_counts,
)
from slurm_ext.simulate.outages.outages import Outages
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay
from slurm_ext.simulate.queue.run import REQUEUE_S
from slurm_ext.simulate.replay_result import ReplayResult
from tests.simulate.traces import Job, jobs, trace_of


class Drawn(Failures):
    """Failures of one node each, at times that a test says."""

    __slots__ = ()
    times: Sequence[tuple[float, int]] = ()

    def events(self, nodes: int, seed: int, pool: int = 0) -> "list[NodeEvent]":  # type: ignore[override]
        """The failures, and each return."""
        both = [
            NodeEvent(when_s + after_s, node, fails=not after_s)
            for when_s, node in self.times
            for after_s in (0.0, self.repair_s)
        ]
        return sorted(both)


def broken(
    rows: list[Job],
    times: Sequence[tuple[float, int]],
    *,
    requeues: bool = True,
    saves_s: float = inf,
) -> ReplayResult:
    """A replay on two nodes of four GPUs, of which one fails at each time for 50 s."""

    class Here(Drawn):
        __slots__ = ()

    Here.times = times
    outages = Outages(failures=Here(between_s=1.0, repair_s=50.0, requeues=requeues))
    cluster = Cluster(nodes=2, gpus_per_node=4)
    return replay(trace_of(rows), cluster, rule_of("fifo"), outages=outages, saves_s=saves_s)


def test_a_failed_nodes_job_runs_anew() -> None:
    """It is put back after Slurm's two minutes, on the other node; what it had done is lost."""
    outcome = broken([(0.0, 100.0, 4), (0.0, 300.0, 4)], [(40.0, 0)])
    assert outcome.start_s.tolist() == [0, 0]
    assert outcome.end_s.tolist() == [40 + REQUEUE_S + 100, 300]
    assert (outcome.restarts, outcome.lost_gpu_s) == ({"0": 1}, 160)
    assert outcome.used_gpu_s == 100 * 4 + 300 * 4 + 160
    assert outcome.out_gpu_s == 50 * 4


def test_work_that_was_saved_is_kept() -> None:
    """Of 40 seconds, saved every 15, thirty outlast the failure."""
    outcome = broken([(0.0, 100.0, 4)], [(40.0, 1), (40.0, 0)], saves_s=15.0)
    assert outcome.end_s.tolist() == [40 + REQUEUE_S + 70]
    assert outcome.lost_gpu_s == 40


def test_a_job_that_is_not_put_back_fails() -> None:
    """It has ended, and counts in no time."""
    outcome = broken([(0.0, 100.0, 4), (0.0, 300.0, 4)], [(40.0, 0)], requeues=False)
    assert outcome.unfinished == {0: "failed with a node"}
    assert outcome.end_s.tolist() == [40, 300]
    assert outcome.jct_s.tolist() == [300]
    assert outcome.lost_gpu_s == 160


def test_an_idle_nodes_failure_keeps_jobs_from_it() -> None:
    """Both nodes are wanted: the job waits until the second one is repaired."""
    outcome = broken([(0.0, 10.0, 1), (20.0, 10.0, 8)], [(15.0, 1)])
    assert outcome.start_s.tolist() == [0, 65]
    assert outcome.restarts == {}


def test_a_job_that_always_breaks_is_given_up() -> None:
    """A node that fails each time, long before the job's end: the replay ends all the same."""
    failures = Failures(between_s=1.0, repair_s=0.5)
    trace = trace_of([(0.0, 1e5, 8), (0.0, 1.0, 1)])
    outcome = replay(
        trace,
        Cluster(nodes=2, gpus_per_node=4),
        rule_of("fifo"),
        outages=Outages(failures=failures),
    )
    assert "given up" in outcome.unfinished[0]


def counted(rows: list[Job], counts: Sequence[tuple[float, int]]) -> ReplayResult:
    """A replay on two nodes of four GPUs, of which so many are there from each time on."""
    lines = [NodeCount(line=2, when_s=at, partition="", nodes=nodes) for at, nodes in counts]
    cluster = Cluster(nodes=2, gpus_per_node=4)
    return replay(trace_of(rows), cluster, rule_of("fifo"), outages=Outages(counts=lines))


def test_nodes_that_leave_let_their_jobs_end() -> None:
    """From 5 on one node takes jobs: those that run there end, others wait until it is back."""
    rows = [(0.0, 20.0, 8), (6.0, 10.0, 8), (7.0, 10.0, 4)]
    outcome = counted(rows, [(5.0, 1), (100.0, 2)])
    assert outcome.start_s.tolist() == [0, 100, 110]
    assert outcome.end_s.tolist()[0] == 20
    assert outcome.out_gpu_s == 80 * 4
    assert outcome.figures()["utilisation"] == pytest.approx((160 + 80 + 40) / (120 * 8 - 320))


def test_a_job_for_which_nodes_never_come_back_is_named() -> None:
    """It waits when all else is over, and the replay says so."""
    outcome = counted([(0.0, 20.0, 4), (6.0, 10.0, 8)], [(5.0, 1)])
    assert outcome.unfinished == {
        1: "still waited when nothing was to come: too few nodes, or a limit"
    }


def test_changes_come_in_order() -> None:
    """Failed and closed nodes are out together; a return ends only the failure."""
    events = [NodeEvent(1.0, 0, fails=True), NodeEvent(4.0, 0, fails=False)]
    found = list(node_changes(events, [Closing(2.0, 0b11), Closing(6.0, 0)]))
    assert found == [
        NodeChange(1.0, 0b01, 0b01),
        NodeChange(2.0, 0b11, 0),
        NodeChange(4.0, 0b11, 0),
        NodeChange(6.0, 0, 0),
    ]


def test_failures_are_drawn_by_seed_and_mean() -> None:
    """The same seed gives the same failures; their number is that of the mean time between them."""

    def first(seed: int) -> list[NodeEvent]:
        drawn = Failures(between_s=100.0, repair_s=10.0).events(50, seed)
        return [next(drawn) for _ in range(4000)]

    assert first(3) == first(3) != first(4)
    failures = [event for event in first(3) if event.fails]
    expected = first(3)[-1].when_s * 50 / 110  # a node is up for 100 s of each 110
    assert len(failures) == pytest.approx(expected, rel=0.1)
    assert (np.diff([event.when_s for event in first(3)]) >= 0).all()


@pytest.mark.parametrize("policy", ["fifo", "fewest+backfill", "shortest+backfill"])
@given(
    rows=jobs(12),
    nodes=st.integers(3, 4),
    seed=st.integers(0, 99),
    requeues=st.booleans(),
    saves_s=st.sampled_from([inf, 3.0]),
)
@settings(max_examples=40, deadline=None)
def test_whatever_fails_nothing_is_lost_or_invented(
    rows: list[Job], nodes: int, seed: int, requeues: bool, saves_s: float, policy: str
) -> None:
    """Each job completes once or is told; GPU-seconds are those of the work and of the losses."""
    failures = Failures(between_s=200.0, repair_s=20.0, requeues=requeues)
    trace, cluster = trace_of(rows), Cluster(nodes=nodes, gpus_per_node=4)
    outcome = replay(
        trace,
        cluster,
        rule_of(policy),
        seed=seed,
        outages=Outages(failures=failures),
        saves_s=saves_s,
    )
    assert 0 <= outcome.used.min() <= outcome.used.max() <= cluster.gpus
    assert outcome.used[-1] == 0
    assert np.isfinite(outcome.end_s).all()
    assert (outcome.end_s >= outcome.start_s).all()
    done = outcome.completed
    work = float(np.sum((outcome.duration_s * trace.gpus)[done]))
    if requeues and not outcome.unfinished:
        assert outcome.used_gpu_s == pytest.approx(work + outcome.lost_gpu_s)
    assert outcome.used_gpu_s <= cluster.gpus * outcome.makespan_s - outcome.out_gpu_s + 1e-6
    assert bool(outcome.unfinished) <= (not requeues)


@given(rows=jobs(8), counts=st.lists(st.tuples(st.integers(0, 60).map(float), st.integers(0, 4))))
@settings(max_examples=60, deadline=None)
def test_no_more_runs_than_there_are_nodes(
    rows: list[Job], counts: list[tuple[float, int]]
) -> None:
    """Nobody starts on a node that is not there."""
    counts = [*sorted(counts), (200.0, 4)]
    lines = [NodeCount(line=2, when_s=at, partition="", nodes=nodes) for at, nodes in counts]
    trace, cluster = trace_of(rows), Cluster(nodes=4, gpus_per_node=4)
    outcome = replay(trace, cluster, rule_of("fewest+backfill"), outages=Outages(counts=lines))
    assert not outcome.unfinished
    assert outcome.end_s == pytest.approx(outcome.start_s + trace.duration_s)
    for at, gpus in zip(outcome.start_s, trace.gpus, strict=True):
        there = [nodes for when_s, nodes in counts if when_s <= at] or [4]
        assert gpus <= there[-1] * 4


HEAD = "time,partition,nodes\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("when,nodes\n", ":1: expected the columns time, partition, nodes"),
        (HEAD, "has no line beside its header"),
        (HEAD + "0,,two\n", ":2: nodes is 'two': expected a number"),
        (HEAD + "0,,-1\n", ":2: nodes is '-1': expected a whole number from 0 on"),
        (HEAD + "0,,1\nsoon,,1\n", ":3: 'soon' is no time"),
        (HEAD + "0,gpu,1\n", ":2: no partition 'gpu': there are (none)"),
        (HEAD + "0,,3\n", ":2: nodes is 3: the cluster has 2"),
    ],
)
def test_a_wrong_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    """By its line and column."""
    path = tmp_path / "counts.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        check_counts(read_node_counts(path, UTC), {"": 0b11}, path)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("lines", "notes"),
    [
        ([(-5.0, "a")], ["lines of c.csv before the trace's time: 1, after it: 0"]),
        ([(-5.0, "a"), (-3.0, "b")], ["lines of c.csv before the trace's time: 2, after it: 0"]),
        ([(-5.0, "a"), (500.0, "a")], ["lines of c.csv before the trace's time: 1, after it: 1"]),
        ([(0.0, "a"), (0.0, "b")], []),
        ([(0.0, "a"), (500.0, "a")], ["lines of c.csv before the trace's time: 0, after it: 1"]),
        ([(-5.0, "a"), (-3.0, "a")], None),
        ([(500.0, "a")], None),
    ],
)
def test_lines_beside_the_traces_time_are_told(
    lines: list[tuple[float, str]], notes: list[str] | None
) -> None:
    """Those that are true of all of it may come before; changes that never show are refused."""
    counts = [NodeCount(line=2, when_s=at, partition=name, nodes=1) for at, name in lines]
    trace = trace_of([(0.0, 10.0, 1), (20.0, 10.0, 1)])
    if notes is not None:
        assert list(outside(counts, trace, Path("c.csv"))) == notes
        return
    with pytest.raises(InputError, match="no line is within the trace's time, 0 to 30 s"):
        list(outside(counts, trace, Path("c.csv")))
