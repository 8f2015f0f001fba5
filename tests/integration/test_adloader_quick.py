"""The live proof's quick form on a real Slurm: its form, not its speed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POLICIES = ("slurm", "dlqueue_cold", "dlqueue_warm")


@pytest.mark.slurm
@pytest.mark.root
@pytest.mark.long(
    short="integration/test_control.py::test_a_killed_job_frees_its_share_and_nothing_stays"
)
@pytest.mark.skipif(
    not os.access("/sys/fs/cgroup/cpu/cgroup.procs", os.W_OK),
    reason="CPU quotas need root and a cgroup v1 cpu controller",
)
def test_every_policy_trains_every_sample_once_and_is_told() -> None:
    """Every job trains on each sample once under both policies; the last line has their keys.

    The benchmark ends with an error where a sample was lost or doubled.
    """
    argv = [sys.executable, "-m", "contrib.bench.adloader", "--quick", "--json"]
    argv += ["--policy", "slurm", "--policy", "dlqueue"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=390, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["bench"] == "adloader"
    for policy in POLICIES:
        keys = {"samples_per_s", "makespan_s", "worst_job_ratio"}
        assert keys <= set(told["figures"]["quick"][policy])
