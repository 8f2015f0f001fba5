"""DLQUEUE_ELASTIC in sbatch's environment, on a real Slurm: from the submission to the resize."""

import json
import sys

import pytest

from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import advisor_runs, until

pytestmark = pytest.mark.slurm

SETTINGS = {
    "elastic.mode": "act",
    "advisor.reconcile_s": 0.5,
    "advisor.breaker_s": 1,
}
HOLDS = "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.05; done\n"


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """One node of two GPUs, with job_submit.lua and the advisor, in shadow."""
    slurm = make_module_sandbox(nodes=1, cpus=2, gpus=2, lua=True, advisor=True, settings=SETTINGS)
    until(lambda: advisor_runs(slurm) >= 0, "no advisor")
    return slurm


def looked(slurm: Sandbox) -> dict[str, object]:
    """One look of the loop, and what it did."""
    words = ["control", "--elastic", "--once", "--json", "--config", str(slurm.layout.settings)]
    return dict(json.loads(slurm.run([sys.executable, "-m", "slurm_ext.cli", *words]).stdout))


def test_a_variable_lets_a_waiting_job_be_made_smaller(slurm: Sandbox) -> None:
    """It starts beside the first one; the variable stays the user's, and the comment empty."""
    first = slurm.sbatch("--gres=gpu:1", script=HOLDS)[0]
    until(lambda: slurm.job(first).get("JobState") == "RUNNING", "the first does not run")
    script = "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.05; done\necho $DLQUEUE_ELASTIC\n"
    env = {"DLQUEUE_ELASTIC": "1-2"}
    job, said = slurm.sbatch("--gres=gpu:2", "-n2", "-Jresized", script=script, env=env)
    assert said == ""
    until(lambda: _moves(slurm), "it is never resized")
    until(lambda: slurm.job(job).get("JobState") == "RUNNING", "it does not start")
    assert "Comment" not in slurm.job(job)
    slurm.path("out/go").touch()
    assert {slurm.wait(first), slurm.wait(job)} == {"COMPLETED"}
    assert slurm.output(job) == "1-2\n"


def _moves(slurm: Sandbox) -> bool:
    moves = looked(slurm)["moves"]
    assert isinstance(moves, list)
    return any((move["done"], move["outcome"]) == ("2->1 GPUs", "done") for move in moves)


@pytest.mark.parametrize("wrong", ["8-1", "many"])
def test_a_bad_value_is_told_and_the_job_runs_as_written(slurm: Sandbox, wrong: str) -> None:
    """At once, in one line, for the comment as for the variable."""
    env = {"DLQUEUE_ELASTIC": wrong}
    job, said = slurm.sbatch("--hold", "--gres=gpu:2", "--wrap", "true", env=env)
    assert said.startswith("sbatch: dlqueue: DLQUEUE_ELASTIC is not MIN-MAX")
    assert said.count("\n") == 1
    assert slurm.job(job)["TresPerNode"].endswith("gpu:2")
    comment = f"--comment=DLQUEUE_ELASTIC={wrong}"
    assert slurm.sbatch("--hold", comment, "--wrap", "true")[1] == said
