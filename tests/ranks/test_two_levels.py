"""Two levels of reduction give what one gives, in the training and the template that we ship."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TEMPLATES = Path(__file__).parents[2] / "job_templates"
TRAINING = TEMPLATES / "examples" / "ranks_train.py"
SRUN = '#!/bin/sh\nshift 2\nexec "$@"\n'  # the template's only step, without a Slurm
# Ranks on each GPU, and the GPUs by Slurm's names.
LAYOUTS = pytest.mark.parametrize(
    ("per_gpu", "gpus"),
    [
        pytest.param(2, "0", id="2 ranks"),
        pytest.param(2, "0,1", id="4 ranks", marks=pytest.mark.journey),
    ],
)


def differences(folder: Path, reduction: str, per_gpu: int, gpus: str) -> list[float]:
    """The template's run: each rank's largest difference from a plain all-reduce."""
    (folder / "srun").write_text(SRUN)
    (folder / "srun").chmod(0o755)
    own = {"PYTHON": sys.executable, "REDUCTION": reduction, "RANKS_PER_GPU": str(per_gpu)}
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, **own, "PATH": path, "CUDA_VISIBLE_DEVICES": gpus, "SLURM_NNODES": "1"}
    command = ["bash", str(TEMPLATES / "ranks.sbatch"), str(TRAINING), "--check", "--steps", "2"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return [float(number) for number in re.findall(r"difference (\S+)", done.stdout)]


@LAYOUTS
def test_gradients_over_torch_equal_a_plain_allreduce(
    tmp_path: Path, per_gpu: int, gpus: str
) -> None:
    """Ranks that the launcher starts, with DistributedDataParallel and our hook: equal to 1e-6."""
    found = differences(tmp_path, "torch", per_gpu, gpus)
    assert len(found) == per_gpu * len(gpus.split(","))
    assert max(found) < 1e-6


@LAYOUTS
def test_gradients_over_mpi_equal_a_plain_allreduce(
    tmp_path: Path, per_gpu: int, gpus: str
) -> None:
    """The same over real MPI, by mpiexec and mpi4py."""
    pytest.importorskip("mpi4py", reason="the extra mpi is not installed")
    beside = str(Path(sys.executable).parent)
    if not (shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")):
        pytest.skip("there is no mpiexec here")
    found = differences(tmp_path, "mpi", per_gpu, gpus)
    assert len(found) == per_gpu * len(gpus.split(","))
    assert max(found) < 1e-6
