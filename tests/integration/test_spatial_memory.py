"""Twice the volume, as jobs of a real Slurm whose memory is limited."""

from pathlib import Path

import pytest

from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.integration.test_spatial_template import TEMPLATE, TRAINING, environment

pytestmark = [pytest.mark.slurm, pytest.mark.root, pytest.mark.journey]
MIB = 1550  # a node's: of 144 voxels along each side two ranks fit in 1400, one process not in 1700
SIDE, TWICE = 112, 144  # 1,404,928 and 2,985,984 voxels; 1150 hold the first with torch's files


def trained(sandbox: Sandbox, folder: Path, nodes: int, side: int) -> tuple[str, str]:
    """The job's state and output: one step of the U-Net, of a rank on each node."""
    command = ["sbatch", "--parsable", f"-N{nodes}", "--ntasks-per-node=1", f"-n{nodes}"]
    command += [f"--mem={MIB}", "-o", f"{nodes}-{side}.txt", str(TEMPLATE), str(TRAINING)]
    command += ["--size", str(side), "--samples=1", "--epochs=1", "--mesh", f"1x{nodes}x1x1"]
    job = int(sandbox.run(command, env=environment("srun"), cwd=folder).stdout)
    state = sandbox.wait(job, timeout_s=400)
    return state, (folder / f"{nodes}-{side}.txt").read_text()


def test_divided_training_fits_where_serial_is_killed(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    """On one node a volume fits, and one of twice the voxels is killed; on two nodes it trains."""
    sandbox = make_sandbox(nodes=2, cpus=2, cgroup=True)
    state, said = trained(sandbox, tmp_path, 1, SIDE)
    assert state == "COMPLETED", said
    state, said = trained(sandbox, tmp_path, 1, TWICE)
    assert state in {"FAILED", "OUT_OF_MEMORY"}, said  # the step is killed; its job ends so
    assert "Out Of Memory" in said
    assert "loss" not in said
    state, said = trained(sandbox, tmp_path, 2, TWICE)
    assert state == "COMPLETED", said
    assert "epoch 0 on 1 x 2x1x1: loss" in said
