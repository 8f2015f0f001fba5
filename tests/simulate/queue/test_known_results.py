"""Replays of published traces come out as published; skipped where the traces are not there."""

import csv
from pathlib import Path

import pytest

from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay
from slurm_ext.simulate.trace.read import read

DATA = Path(__file__).parents[4] / "shared" / "data"
PHILLY = DATA / "duration" / "philly_jobs.csv.gz"
POLLUX = DATA / "scheduling" / "pollux" / "workloads"
PUBLISHED = DATA / "scheduling" / "pollux_published_by_workload.csv"


@pytest.mark.skipif(not PHILLY.exists(), reason="the Philly trace is not here")
def test_policies_rank_on_philly_as_published() -> None:
    """Strict FIFO is by far the worst, then backfill, and the oracle is the best.

    Virtual cluster 11cb48 on 4 of its 16 nodes; the Helios artifact prints a FIFO that is 5.7 times
    worse than shortest job first in completion time there.
    """
    trace = read(PHILLY)
    trace = trace.only(trace.vc == trace.vcs.index("11cb48"), "left out: other virtual clusters")
    mean = {}
    for policy in ("fifo", "fifo+backfill", "shortest+backfill"):
        outcome = replay(trace, Cluster(nodes=4), rule_of(policy))
        mean[policy] = outcome.figures()["jct_mean_s"]
    assert mean["fifo"] > 1.5 * mean["fifo+backfill"]
    assert mean["fifo+backfill"] > mean["shortest+backfill"]
    assert mean["fifo"] > 4 * mean["shortest+backfill"]


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the Pollux artifact is not here")
@pytest.mark.parametrize("number", [1, 6])
def test_tiresias_comes_near_its_published_completion_times(number: int) -> None:
    """Up to a third below: the artifact decides once a minute and pays 30 s a start; we do not."""
    with PUBLISHED.open() as file:
        rows = {(row["policy"], row["load"], row["workload"]): row for row in csv.DictReader(file)}
    published = float(rows["tiresias", "1.0", f"workload-{number}"]["avg_jct_s"])
    trace = read(POLLUX / f"workload-{number}.csv")
    outcome = replay(trace, Cluster(nodes=16, gpus_per_node=4), rule_of("tiresias"))
    assert 0.67 * published < outcome.figures()["jct_mean_s"] < published
