"""`dlqueue profile job.sh` on a real Slurm: one short job, and nothing of the user's touched."""

import json
import sys
from pathlib import Path

import pytest

from slurm_ext.sandbox import Sandbox
from tests.cli.profile.test_profile_run import TRAINING

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slurm, pytest.mark.journey]


def test_a_batch_script_is_profiled_by_a_job_of_its_own(sandbox: Sandbox, tmp_path: Path) -> None:
    """Its output, its checkpoint and its time limit stay the user's; windows come from its step."""
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "checkpoint.pt").write_bytes(b"weights")
    job = tmp_path / "job.sh"
    job.write_text(
        "#!/bin/sh\n#SBATCH --time=3-0 --output=own.txt\n"
        f"srun {sys.executable} train.py 1 && echo done\n"
    )
    options = ("--json", "--steps", "60", "--startup", "120")
    done = sandbox.run(
        [sys.executable, "-m", "slurm_ext.cli", "profile", *options, job.name],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path / "state")},
        timeout_s=300,
    )
    found = json.loads(done.stdout)
    assert (found["depth"], found["how"]) == ("L1", "ended"), found
    assert found["saves"]["torch.save"] >= 1
    assert (tmp_path / "checkpoint.pt").read_bytes() == b"weights"
    assert not (tmp_path / "own.txt").exists()
    assert not any((tmp_path / "state").rglob("dlqueue-profile-*"))
