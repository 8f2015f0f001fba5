"""Advisor and node allocator do their work under the restrictions of their units."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm_ext.sandbox import Sandbox
from tests.as_unit import dlqueue_as_unit
from tests.conftest import MakeSandbox
from tests.integration.test_control import (
    CPU,
    HEAVY,
    LIGHT,
    SETTINGS,
    TRAINING,
    controller,
    train,
    weight,
)
from tests.whole import ACTING, asked, until

pytestmark = [pytest.mark.slurm, pytest.mark.root]


@contextmanager
def confined(slurm: Sandbox, unit: str, *words: str) -> "Iterator[subprocess.Popen[bytes]]":
    """The unit's program instead of the sandbox's own, ended by SIGTERM."""
    argv = dlqueue_as_unit(unit, [slurm.layout.root], *words)
    process = subprocess.Popen(argv, env=slurm.env)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def test_a_confined_advisor_decides_and_records(make_sandbox: MakeSandbox) -> None:
    """A job gets its token and leaves its record; the advisor has no capability and no home."""
    slurm = make_sandbox(hooks=True, lua=True, advisor=True, settings=ACTING)
    slurm.stop("advisor")
    with confined(slurm, "dlqueue", "serve", "--config", str(slurm.layout.settings)) as advisor:
        until(lambda: slurm.path("run/advisor.sock").exists(), "the advisor does not serve")
        capabilities = Path(f"/proc/{advisor.pid}/status").read_text().partition("CapEff:")[2]
        assert int(capabilities.split()[0], 16) == 0
        job, _ = slurm.sbatch("--job-name=confined", "--wrap", "printenv DLQUEUE_DECISION")
        assert slurm.wait(job) == "COMPLETED"
        assert slurm.output(job).startswith("d1-")
        query = "SELECT 1 FROM runs WHERE job_id = ? AND job_name = 'confined'"
        until(lambda: asked(slurm, query, job), "its record is not taken")


def test_a_confined_allocator_moves_cores_and_gives_them_back(make_sandbox: MakeSandbox) -> None:
    """It weighs another user's training, opens its gate, and leaves nothing behind."""
    if not (CPU / "cpu.cfs_period_us").exists():
        pytest.skip("needs cgroup version 1 with a cpu controller of its own")
    slurm = make_sandbox(hooks=True, control=True, cpus=8, settings=SETTINGS)
    slurm.path("train.py").write_text(TRAINING)
    slurm.stop(controller(slurm))
    config = slurm.layout.node(slurm.nodes[0]) / "dlqueue.toml"
    with confined(slurm, "dlqueue-control", "control", "--config", str(config)) as allocator:
        jobs = [train(slurm, cost, slurm.path("never")) for cost in (HEAVY, LIGHT)]
        until(lambda: any(weight(slurm, job) for job in jobs), "no job has a weight")
        os.kill(allocator.pid, signal.SIGTERM)
        until(lambda: all(weight(slurm, job) is None for job in jobs), "a weight stays")
