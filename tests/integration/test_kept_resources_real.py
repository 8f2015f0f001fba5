"""On a real Slurm: what a script's runs refused is not promised again, and busy cores stay."""

import json
import os
import re
import sys
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.findings.loader_refusal import LoaderRefusal
from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import ACTING, WHOLE, advisor_runs, asked, completed, dlqueue, until

pytestmark = [pytest.mark.slurm, pytest.mark.journey]

PINNED = '''
import time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    """Ten milliseconds of storage for each sample."""

    def __len__(self):
        return 160

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.rand(1)

torch.manual_seed(0)
for epoch in range(2):
    for batch in DataLoader(Slow(), batch_size=8, num_workers=1):
        time.sleep(0.002)
'''
THREADS = """
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(2)
weights = torch.rand(1200, 1200)
for epoch in range(2):
    for batch, in DataLoader(TensorDataset(torch.rand(320, 8)), batch_size=8):
        weights @ weights
"""
WHY = "its seeds are pinned, so its workers stay (DLQUEUE_SEEDED=allow lifts this)"
RUN = """SELECT refused, used_cores, l.cores, user_workers FROM loader_runs l
JOIN runs ON runs.id = run WHERE job_id = ?"""


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """All of dlqueue, where it may change CPUs that the user wrote."""
    return make_module_sandbox(**WHOLE, settings=ACTING)


def trained(slurm: Sandbox, folder: Path, name: str, program: str) -> tuple[Any, ...]:
    """A first run of the program on four CPUs: its evidence, when the advisor has it."""
    (folder / f"{name}.py").write_text(program)
    (folder / f"{name}.sh").write_text(f"#!/bin/bash\n#SBATCH -c 4 -J {name}\npython3 {name}.py\n")
    before = advisor_runs(slurm)
    job_id, said = again(slurm, folder, name)
    assert said == ""
    completed(slurm, job_id)
    (row,) = until(partial(asked, slurm, RUN, job_id), "the run has no figures")
    until(lambda: advisor_runs(slurm) > before, "the first run taught nothing")
    return tuple(row)


def again(slurm: Sandbox, folder: Path, name: str, *argv: str) -> tuple[int, str]:
    """The very same submission."""
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = (folder / f"{name}.sh").read_text()
    return slurm.sbatch("-c4", f"-J{name}", *argv, script=script, env=path, cwd=folder)


def needed(used: float, cores: float) -> int:
    """CPUs of the four that a task may not lose."""
    return 4 if used >= 0.9 * cores else max(1, ceil(used - 0.1))


def test_pinned_seeds_are_known_from_the_first_run(slurm: Sandbox, tmp_path: Path) -> None:
    """The second and the third submission promise nothing, move no worker, and say why."""
    refused, used, cores, own = trained(slurm, tmp_path, "pinned", PINNED)
    assert (refused, own) == (LoaderRefusal.SEEDS, 1)
    for _ in range(2):
        before = advisor_runs(slurm)
        job_id, said = again(slurm, tmp_path, "pinned")
        assert "faster" not in said
        assert "workers" not in said.replace(WHY, "")
        assert int(slurm.job(job_id)["CPUs/Task"]) >= needed(used, cores)
        completed(slurm, job_id)
        until(partial(asked, slurm, RUN, job_id), "the run has no figures")
        until(lambda: advisor_runs(slurm) > before, "the run taught nothing")  # noqa: B023
    told = dlqueue(slurm, "explain", str(job_id))
    assert WHY in told
    assert "dlqueue would leave them alone: pinned seeds" in told
    answer = json.loads(dlqueue(slurm, "predict", "--json", str(tmp_path / "pinned.sh")))
    assert (WHY in answer["why"], answer["workers_stay"]) == (True, WHY)
    assert {point["num_workers"] for point in (*answer["curve"], answer["maximum"])} == {1}


def test_who_lifts_it_is_moved_at_once(slurm: Sandbox, tmp_path: Path) -> None:
    """DLQUEUE_SEEDED=allow in the submitting shell: the run's workers are moved."""
    # With many workers, two epochs would be too short to be believed.
    trained(slurm, tmp_path, "lifted", PINNED.replace("range(2)", "range(10)"))
    os_path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = (tmp_path / "lifted.sh").read_text()
    env = {"PATH": os_path, "DLQUEUE_SEEDED": "allow"}
    job_id, said = slurm.sbatch("-c4", "-Jlifted", script=script, env=env, cwd=tmp_path)
    assert re.search(r"workers 1 -> \d+: about [\d.]+x faster", said)
    completed(slurm, job_id)
    ((refused, *_),) = until(partial(asked, slurm, RUN, job_id), "the run has no figures")
    assert refused == LoaderRefusal.MOVED


def test_busy_threads_keep_their_cores(slurm: Sandbox, tmp_path: Path) -> None:
    """A training on two threads of the CPU, whose curve knows its loader alone."""
    _, used, cores, _ = trained(slurm, tmp_path, "threads", THREADS)
    job_id, said = again(slurm, tmp_path, "threads", "-H")
    assert int(slurm.job(job_id)["CPUs/Task"]) >= needed(used, cores)
    assert "faster" not in said
