"""A hook finds squeue beside the slurmd that called it, whatever other Slurm the node has."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_ext.node.common import slurm_place
from slurm_ext.node.common.slurm_place import command

ROOT = Path(__file__).parents[3]
ASKS = "from slurm_ext.node.common.slurm_place import command; print(command('squeue', ''))"


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A Slurm with a prefix; its slurmd is a shell."""
    for folder in ("bin", "sbin"):
        (tmp_path / folder).mkdir()
    shutil.copy("/bin/sh", tmp_path / "sbin" / "slurmd")
    program(tmp_path / "bin" / "squeue")
    return tmp_path


def program(path: Path) -> str:
    """An empty program."""
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("between", ["", "timeout 60 sh -c"])
def test_squeue_is_found_beside_the_slurmd_above(prefix: Path, between: str) -> None:
    """Also through a launcher and its time limit; slurmd gives its scripts no PATH."""
    (prefix / "ask.py").write_text(ASKS)
    hook = f"{sys.executable} {prefix}/ask.py; true"
    script = f"{between} '{hook}'; true" if between else hook
    done = subprocess.run(
        [prefix / "sbin" / "slurmd", "-c", script],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{prefix}/bin/squeue"


def test_a_sampler_finds_squeue_beside_a_slurmd_that_runs(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has left slurmd; any slurmd of this node will do, but none of another user's."""
    argv = [str(prefix / "sbin" / "slurmd"), "-c", "read line; true"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as slurmd:
        monkeypatch.setattr(os, "listdir", lambda _: [str(slurmd.pid)])
        assert command("squeue", "") == f"{prefix}/bin/squeue"
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        monkeypatch.setattr(os, "stat", lambda _: os.stat_result([0, 0, 0, 0, 999, 0, 0, 0, 0, 0]))
        monkeypatch.setattr(slurm_place, "USUAL", ())
        assert command("squeue", "") is None
        slurmd.communicate(b"\n")


def test_the_setting_counts_alone(prefix: Path) -> None:
    """No other Slurm is asked where the named folder has none."""
    assert command("squeue", str(prefix / "bin")) == f"{prefix}/bin/squeue"
    assert command("squeue", str(prefix / "sbin")) is None
