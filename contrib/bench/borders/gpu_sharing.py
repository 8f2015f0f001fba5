"""Attacks on a shared GPU: who may say that another tool's MPS serves it."""

import json
import os
import shutil
import time
from pathlib import Path

from contrib.bench.borders.attack import ATTACKER, VICTIM, Attack, Happened, as_user
from contrib.bench.borders.run_folder import run_job
from slurm_ext.sandbox import Sandbox, SandboxSpec
from tests.mps_standin import install

CARD = "GPU-0000beef-1111-2222-3333-444455556666, 40960, Disabled, Default"
FAKES = 20
_ASK = """#!/bin/sh
#SBATCH --gres=mps:50
env | grep ^CUDA_MPS_PIPE || echo none
"""


def fake_daemons(folder: Path) -> Happened:
    """Start processes that call themselves MPS's control daemon; run a job that shares the GPU."""
    bin_folder = folder / "nvidia"
    control = install(bin_folder, [CARD])
    settings = {"mps.mode": "act", "mps.control": str(control), "node.prolog_budget_s": 20.0}
    spec = SandboxSpec(hooks=True, cpus=4, gpus=1, sharing="mps", settings=settings)
    with Sandbox(folder / "s", spec, temporary=True) as sandbox:
        fakes = _fakes(folder)
        try:
            job = run_job(sandbox, VICTIM, _ASK)
            given = sandbox.output(job).strip()
            reason = _faults(sandbox, job)
        finally:
            for pid in fakes:
                os.killpg(pid, 9)
                os.waitpid(pid, 0)
    held = given.startswith("CUDA_MPS_PIPE_DIRECTORY=")
    return Happened(held=held, what="the victim has MPS" if held else f"none: {reason}")


def _fakes(folder: Path) -> list[int]:
    """Pids of the attacker's processes, which say that they serve every GPU."""
    place = folder / "fake"
    place.mkdir()
    program = place / "nvidia-cuda-mps-control"
    shutil.copy("/bin/dash", program)
    ids = as_user(ATTACKER)
    os.chown(program, ids["user"], ids["group"])
    pids = []
    for _ in range(FAKES):
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.setgroups([])
            os.setgid(ids["group"])
            os.setuid(ids["user"])
            argv = [str(program), "-c", "sleep 100; true", "-d"]
            os.execve(program, argv, {"PATH": "/bin"})
        pids.append(pid)
    time.sleep(0.5)
    return pids


def _faults(sandbox: Sandbox, job_id: int) -> str:
    """Faults in the job's record."""
    for path in sandbox.path("dlqueue/spool").glob(f"*-{job_id}-*.json"):
        return ", ".join(json.loads(path.read_text())["probe"]["faults"])
    return ""


ATTACKS = (
    Attack(
        name="fake_mps",
        row=10,
        tried=f"{FAKES} processes call themselves nvidia-cuda-mps-control and serve every GPU",
        before="no job got MPS on any GPU of the node",
        act=fake_daemons,
    ),
)
