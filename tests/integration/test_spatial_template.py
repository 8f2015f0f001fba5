"""Training on divided volumes, as jobs of a real Slurm under every launcher."""

import os
import re
import sys
from pathlib import Path

import pytest

from slurm_ext.ranks.free_port import free_port
from slurm_ext.sandbox import Sandbox

pytestmark = [pytest.mark.slurm, pytest.mark.journey]
ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "job_templates" / "spatial.sbatch"
TRAINING = ROOT / "job_templates" / "examples" / "spatial_train.py"
SMALL = ("--size", "16", "--samples", "4")
ENV = {
    "PYTHON": sys.executable,
    "PYTHONPATH": str(ROOT),
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # MPI's mpiexec, too
}


STEP = """#!/bin/sh
scontrol -o show step "$SLURM_JOB_ID.$SLURM_STEP_ID" | grep -o 'CPUs=[0-9]*\\|Tasks=[0-9]*'
"""


def environment(launcher: str, **more: str) -> dict[str, str]:
    """A job's: its own port, as another sandbox's job of the same number has the same one."""
    return {**ENV, "LAUNCHER": launcher, "MASTER_PORT": str(free_port()), **more}


def losses(
    sandbox: Sandbox, folder: Path, epochs: int, *words: str, launcher: str = "srun", tasks: int = 2
) -> dict[int, tuple[str, float]]:
    """Of each epoch that the job trained: its mesh and its mean loss."""
    command = ["sbatch", "--parsable", f"-n{tasks}", "-o", "out-%j.txt", str(TEMPLATE)]
    command += [str(TRAINING), *SMALL, "--epochs", str(epochs), *words]
    env = environment(launcher)
    job = int(sandbox.run(command, env=env, cwd=folder).stdout)
    state = sandbox.wait(job)
    text = (folder / f"out-{job}.txt").read_text()
    assert state == "COMPLETED", text
    rows = re.findall(r"epoch (\d+) on (.*): loss (.*)", text)
    return {int(epoch): (mesh, float(loss)) for epoch, mesh, loss in rows}


def test_one_training_goes_on_under_every_launcher(sandbox: Sandbox, tmp_path: Path) -> None:
    """srun, torchrun and mpiexec: each takes up the other's checkpoint, and the curve is serial's.

    Each job divides the volume along another dimension.
    """
    found: dict[int, tuple[str, float]] = {}
    for epochs, launcher, mesh in (
        (1, "srun", "1x2x1x1"),
        (2, "torchrun", "1x1x2x1"),
        (3, "mpiexec", "1x1x1x2"),
    ):
        found |= losses(sandbox, tmp_path, epochs, "--mesh", mesh, launcher=launcher)
    alone = tmp_path / "alone"
    alone.mkdir()
    serial = losses(sandbox, alone, 3, "--mesh", "1x1x1x1", tasks=1)
    assert [mesh for mesh, _ in found.values()] == ["1 x 2x1x1", "1 x 1x2x1", "1 x 1x1x2"]
    assert [loss for _, loss in found.values()] == pytest.approx(
        [loss for _, loss in serial.values()], rel=1e-3
    )


@pytest.mark.parametrize(
    ("launcher", "steps"),
    [("srun", ["CPUs=8", "Tasks=4"] * 4), ("torchrun", ["CPUs=8", "Tasks=2"] * 2)],
)
def test_ranks_have_the_cpus_that_were_asked_for(
    sandbox: Sandbox, tmp_path: Path, launcher: str, steps: list[str]
) -> None:
    """Two ranks of two CPUs on each of two nodes: a step does not take these from its job."""
    python = tmp_path / "python"
    python.write_text(STEP)
    python.chmod(0o755)
    shape = ["-N2", "-n4", "--ntasks-per-node=2", "-c2", "-o", "out.txt"]
    env = environment(launcher, PYTHON=str(python))
    command = ["sbatch", "--parsable", *shape, str(TEMPLATE), "train.py"]
    job = int(sandbox.run(command, env=env, cwd=tmp_path).stdout)
    assert sandbox.wait(job) == "COMPLETED"
    assert (tmp_path / "out.txt").read_text().split() == steps
