"""Estimates made inside a replay: by what has ended in it, and by siblings, and by nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lightgbm")

from contrib.bench.duration.replay import Trace
from contrib.bench.duration.tables import PHILLY, Job
from contrib.bench.queue.replays import shrunk, trace_of
from contrib.bench.queue.runtime_predictor import ReplayPredictor, learn
from slurm_ext.core.errors import InputError
from slurm_ext.model.duration.state import JobFeatures
from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay

BATCH, BATCHES, LEARNT = 10, 60, 40  # jobs of a batch; batches; of those before the cut


def jobs(longer: float = 1.0) -> list[Job]:
    """Batches an hour apart, each of one length; `longer`: by how much the last one's jobs are."""
    random = np.random.default_rng(3)
    lengths = random.lognormal(6.0, 1.5, BATCHES)
    lengths[-1] *= longer
    asked = [
        JobFeatures(batch * 3600.0 + job, {"vc": "a", "num_gpus": "1"}, {"num_gpus": 0.0})
        for batch in range(BATCHES)
        for job in range(BATCH)
    ]
    noise = random.lognormal(0.0, 0.1, len(asked))
    return [
        Job(str(at), one, float(lengths[at // BATCH] * noise[at]), censored=False)
        for at, one in enumerate(asked)
    ]


def replayed(told: list[Job], *, siblings: bool = True) -> tuple[Any, Any]:
    """The trace of the later batches on one small node, and who foretold it."""
    submit_s = np.array([job.asked.submit_s for job in told])
    ends = np.array([job.end_s for job in told])
    logs = np.log([job.duration_s for job in told])
    known = learn(
        PHILLY, Trace(told, float(submit_s[LEARNT * BATCH]), submit_s, ends, logs, ()), 20
    )
    trace = trace_of(known, "made up")
    inside = ReplayPredictor(known, trace.job, siblings=siblings)
    replay(trace, Cluster(nodes=1, gpus_per_node=2), rule_of("qssf+backfill"), predictor=inside)
    return trace, inside


def test_siblings_tell_what_submission_cannot() -> None:
    """At the start of a job its batch's length is known better than at its submission."""
    trace, inside = replayed(jobs())
    real = np.log(trace.duration_s)
    first, last = (
        float(((np.log(s) - real) ** 2).mean()) for s in (inside.submission_s, inside.start_s)
    )
    assert last < 0.6 * first


def test_nothing_of_the_future_is_known() -> None:
    """The last batch's lengths change nothing of what was foretold of those before it.

    Where siblings are not asked, what is foretold at submission stays.
    """
    plain, changed = (replayed(jobs(longer), siblings=False)[1] for longer in (1.0, 50.0))
    assert plain.submission_s[:-BATCH].tolist() == changed.submission_s[:-BATCH].tolist()
    assert plain.submission_s[-BATCH] == changed.submission_s[-BATCH]
    assert plain.start_s.tolist() == plain.submission_s.tolist()


def test_a_cluster_without_nodes_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    """And says what is expected."""
    (tmp_path / "vcs.csv").write_text("vc,nodes_8gpu\na,many\n")
    with pytest.raises(InputError, match="nodes_8gpu"):
        shrunk(tmp_path / "vcs.csv")
