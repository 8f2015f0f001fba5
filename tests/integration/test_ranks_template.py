"""Several ranks a GPU, as a job of a real Slurm."""

import os
import sys
from pathlib import Path

import pytest

from slurm_ext.sandbox import Sandbox

pytestmark = pytest.mark.slurm
TEMPLATE = Path(__file__).parents[2] / "job_templates" / "ranks.sbatch"
TRAIN = """import os
os.write(1, f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\\n".encode())
"""
MPS = '#!/bin/sh\n[ "$1" = -d ] || read -r said\necho "mps ${1:-$said}" >> "$(dirname "$0")/said"\n'


def test_the_template_runs_its_ranks_beside_an_mps_of_its_own(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """MPS is started before the ranks and quits after them."""
    (tmp_path / "train.py").write_text(TRAIN)
    control = tmp_path / "nvidia-cuda-mps-control"
    control.write_text(MPS)
    control.chmod(0o755)
    tmp_path.chmod(0o755)
    env = {"PYTHON": sys.executable, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    job = sandbox.run(
        ["sbatch", "--parsable", "-o", "out.txt", str(TEMPLATE), "train.py"], env=env, cwd=tmp_path
    ).stdout
    assert sandbox.wait(int(job)) == "COMPLETED"
    ranks = sorted(
        line for line in (tmp_path / "out.txt").read_text().splitlines() if "rank" in line
    )
    assert ranks == ["rank 0 of 2", "rank 1 of 2"]
    assert (tmp_path / "said").read_text().split("\n")[:2] == ["mps -d", "mps quit"]
