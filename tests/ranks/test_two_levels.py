"""Two levels of reduction give what one gives."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RANK = Path(__file__).with_name("two_levels.py")
RANKS = 4


def differences(command: list[str]) -> list[float]:
    """What each rank printed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return [float(number) for number in re.findall(r"difference (\S+)", done.stdout)]


def test_gradients_over_torch_equal_a_flat_allreduce() -> None:
    """Two ranks on each of two GPUs, started by the launcher: equal to 1e-6."""
    launcher = [sys.executable, "-m", "slurm_ext.ranks", "--ranks-per-gpu", str(RANKS)]
    found = differences([*launcher, str(RANK), "torch"])
    assert len(found) == RANKS
    assert max(found) < 1e-6


def test_arrays_over_mpi_equal_a_flat_allreduce() -> None:
    """The same over real MPI."""
    pytest.importorskip("mpi4py", reason="the extra mpi is not installed")
    mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which(
        "mpiexec"
    )
    if mpiexec is None:
        pytest.skip("there is no mpiexec here")
    found = differences([mpiexec, "-n", str(RANKS), sys.executable, str(RANK), "mpi"])
    assert len(found) == RANKS
    assert max(found) < 1e-6
