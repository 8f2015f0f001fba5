"""The queue benchmarks, started on folders that lack their tables."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contrib.bench.queue.__main__ import _wanted
from contrib.bench.queue.replays import OURS, by_r2
from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay
from tests.bench.program import run_bench
from tests.simulate.traces import trace_of


def test_a_folder_without_the_trace_is_one_line(tmp_path: Path) -> None:
    """Status 1, and the file is named."""
    done = run_bench("queue", "--train", tmp_path, "--test", tmp_path)
    assert done.returncode == 1
    assert "helios_artifact_philly_published.csv" in done.stderr
    assert "Traceback" not in done.stderr


def test_ageing_is_chosen_from_a_folder_that_is_there(tmp_path: Path) -> None:
    """Status 1 in one line where it is not."""
    done = run_bench("queue.ageing", "--data", tmp_path)
    assert done.returncode == 1
    assert "philly_jobs.csv.gz" in done.stderr
    assert "Traceback" not in done.stderr


def test_estimates_without_error_give_what_true_run_times_give() -> None:
    """At R2 = 1 each rule's gain is its oracle's; a scale that ends elsewhere would mislead."""
    draws = np.random.default_rng(1)
    lasted_s = np.exp(draws.normal(8.0, 2.0, 200))
    jobs = [(60.0 * at, seconds, 1 + at % 8) for at, seconds in enumerate(lasted_s.tolist())]
    guessed = lasted_s * np.exp(draws.normal(0.0, 1.5, 200))
    trace, node = replace(trace_of(jobs), estimate_s=guessed), Cluster(nodes=1, gpus_per_node=8)
    gains = by_r2(trace, node, 1e5)
    assert 0 < gains["r2_of_ours"] < 0.6
    for added in ("+backfill", "+backfill+ageing"):
        truth_s = replay(trace, node, rule_of(f"shortest{added}")).figures()["jct_mean_s"]
        assert gains["1.0"][f"qssf{added}"] == round(1e5 / truth_s, 3)
        assert gains["0.6"][f"qssf{added}"] < gains["1.0"][f"qssf{added}"]


@pytest.mark.parametrize("held_out", [True, False])
def test_the_published_wait_is_a_bar_for_held_out_jobs_alone(held_out: bool) -> None:
    """Where the folder that is learnt from is replayed, other jobs wait."""
    tail = {"queue_mean_s": 15_000.0, "queue_p999_s": 9.0, "jct_mean_s": 5.0}
    part = {"policies": dict.fromkeys((OURS, "fifo", "fifo+backfill"), tail)}
    rows = list(_wanted({"quarter": part, "load 0.85": part}, held_out=held_out))
    assert any("quarter of the nodes" in row["what"] for row in rows) == held_out
