"""Starts of an overloaded queue, as they were before the planning was made faster."""

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.planning.scheduling import Scheduling, exact
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay
from slurm_ext.simulate.trace.columns import Trace
from tests.simulate.traces import trace_of

JOBS, NODES, LOAD = 500, 8, 1.6
GPUS = (1, 2, 3, 4, 8, 12, 16, 32)
LOOKS = {
    "Slurm's": Scheduling(),
    "ten": Scheduling(reservations=10, linear_s=60),
    "all": exact(None, 100),
}


def overloaded() -> Trace:
    """More is asked for than there is, and most jobs end long before their limit."""
    rng = np.random.default_rng(11)
    gpus = rng.choice(GPUS, JOBS, p=(0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05))
    run_s = np.clip(rng.lognormal(np.log(1200), 1.5, JOBS), 1, 86400).round()
    gap_s = float(np.mean(gpus * run_s)) / (NODES * 8 * LOAD)
    submit_s = np.cumsum(rng.exponential(gap_s, JOBS)).round()
    submit_s -= submit_s[0]
    limit_s = np.maximum(60, (run_s * rng.uniform(1, 5, JOBS) / 600).round() * 600)
    rows = list(zip(submit_s.tolist(), run_s.tolist(), gpus.tolist(), strict=True))
    return replace(trace_of(rows), limit_s=limit_s)


@pytest.mark.parametrize(
    ("look", "policy", "starts"),
    [
        ("Slurm's", "fifo+backfill", "3c72db6b32afd1a3"),
        ("Slurm's", "shortest+backfill", "6b67ad340869195f"),
        ("ten", "fifo+backfill", "1ec278582d73de69"),
        ("all", "fifo+backfill", "6313e643e7ad2c50"),
        ("all", "fewest+backfill", "3787096a21193377"),
    ],
)
def test_starts_are_those_of_before(look: str, policy: str, starts: str) -> None:
    """To the second, though the queue is long and promises are many."""
    cluster = Cluster(nodes=NODES, gpus_per_node=8)
    outcome = replay(overloaded(), cluster, rule_of(policy), scheduling=LOOKS[look])
    assert sha256(outcome.start_s.round(3).tobytes()).hexdigest()[:16] == starts
