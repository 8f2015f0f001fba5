"""The way into a profile run: a process that cannot take part ends, and says why."""

import os
import subprocess
import sys
from pathlib import Path

from slurm_ext.cli.profile.run_folder import ProfileLimits, environment


def test_a_job_that_inherits_a_profile_ends_aloud(tmp_path: Path) -> None:
    """It would train for some steps, save nothing and look well; the profile's folder is gone."""
    gone = tmp_path / "dlqueue-profile-1"
    done = subprocess.run(
        [sys.executable, "-c", "import torch.utils.data; print('it trains')"],
        env=environment(gone, ProfileLimits(400, 180, 600, 0), os.environ),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "the profile is over" in done.stderr
    assert list(tmp_path.iterdir()) == []
