"""Gradient buckets on a real Slurm: one run of two ranks changes the next one's, and no sum."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import ACTING, QUICK_TORCH, WHOLE, asked, completed, dlqueue, until

pytestmark = [pytest.mark.slurm, pytest.mark.journey]

TRAINING = (
    QUICK_TORCH
    + '''
import json, os, sys, time, torch, torch.distributed
from torch.utils.data import DataLoader, IterableDataset

for name, slurms in (("RANK", "SLURM_PROCID"), ("WORLD_SIZE", "SLURM_NTASKS")):
    os.environ.setdefault(name, os.environ[slurms])
rank = int(os.environ["RANK"])
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")

class Asleep(torch.autograd.Function):
    """The identity, whose gradient takes its time."""

    @staticmethod
    def forward(ctx, data):
        return data.view_as(data)

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(0.025)
        return gradient

class Layer(torch.nn.Linear):
    """4 MiB of gradients."""

    def __init__(self):
        super().__init__(1024, 1024, bias=False)

    def forward(self, data):
        return Asleep.apply(super().forward(data).tanh())

class Batches(IterableDataset):
    def __iter__(self):
        made = torch.Generator().manual_seed(rank)
        return (torch.randn(1024, generator=made) for _ in range(24))

torch.manual_seed(0)
inner = torch.nn.Sequential(*[Layer() for _ in range(8)])
model = torch.nn.parallel.DistributedDataParallel(inner)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for epoch in range(2):
    for data in DataLoader(Batches(), batch_size=2):
        loss = (model(data) - 0.1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
said = model._get_ddp_logging_data()["rebuilt_bucket_sizes"]
told = {
    "buckets": [int(size) >> 20 for size in said.split(", ")],
    "losses": losses,
    "asked": os.environ.get("DLQUEUE_BUCKETS"),
}
with open(f"told-{os.environ['SLURM_JOB_ID']}-{rank}", "w") as file:
    json.dump(told, file)
torch.distributed.destroy_process_group()
'''
)
PORT = "from slurm_ext.ranks.free_port import free_port; print(free_port())"
SRUN = f"""#!/bin/bash
#SBATCH --job-name=ddp --ntasks=2
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$(python3 -c "{PORT}")
srun python3 train.py
"""
OWN = [4, 28]  # MiB: torch closes the first at 1, the others at 25
SETTINGS = {**ACTING, "communication.mode": "act", "policy.min_gain": 0.01}
ENV = {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}


@dataclass(frozen=True, slots=True)
class Job:
    """A job that completed: what sbatch said, and what each rank told."""

    number: int
    said: str
    ranks: list[dict[str, Any]]


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """All of dlqueue, which may set gradient buckets."""
    return make_module_sandbox(**WHOLE, settings=SETTINGS)


def ran(slurm: Sandbox, folder: Path, **env: str) -> Job:
    """The job of a folder, to its record."""
    number, said = slurm.sbatch("job.sh", env={**ENV, **env}, cwd=folder)
    completed(slurm, number)
    paths = (folder / f"told-{number}-{rank}" for rank in range(2))
    return Job(number, said, [json.loads(path.read_text(encoding="ascii")) for path in paths])


def plan(slurm: Sandbox, folder: Path) -> dict[str, Any]:
    """The plan for the buckets of a folder's next job, as `dlqueue predict` tells it."""
    words = [sys.executable, "-m", "slurm_ext.cli", "predict", "--json", "job.sh"]
    told: dict[str, Any] = json.loads(slurm.run(words, cwd=folder).stdout)["buckets"]
    return told


def test_the_second_run_has_buckets_by_the_first(slurm: Sandbox, tmp_path: Path) -> None:
    """Both ranks have the plan's, to the same bits of every loss; who opts out has torch's own."""
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "job.sh").write_text(SRUN)
    first = ran(slurm, tmp_path)
    assert [rank["asked"] for rank in first.ranks] == ["measure"] * 2
    assert [rank["buckets"] for rank in first.ranks] == [OWN] * 2
    until(lambda: plan(slurm, tmp_path)["change"], "the first run taught nothing")
    caps = plan(slurm, tmp_path)["caps"]
    second = ran(slurm, tmp_path)
    assert "dlqueue: other gradient buckets: about " in second.said
    assert [rank["asked"].endswith(f":2:{caps}") for rank in second.ranks] == [True] * 2
    assert second.ranks[0]["buckets"] == second.ranks[1]["buckets"] != OWN
    out = ran(slurm, tmp_path, DLQUEUE="off")
    assert [(rank["asked"], rank["buckets"]) for rank in out.ranks] == [(None, OWN)] * 2
    assert out.said == ""
    for rank in range(2):
        losses = [job.ranks[rank]["losses"] for job in (first, second, out)]
        assert losses[0] == losses[1] == losses[2]
    assert_told(slurm, second.number, caps)


def assert_told(slurm: Sandbox, number: int, caps: str) -> None:
    """Ledger, evidence and `dlqueue explain` say that the job had these buckets."""
    sql = "SELECT buckets FROM decisions WHERE job_id = ?"
    ((kept,),) = asked(slurm, sql, number)
    assert (json.loads(kept)["caps"], json.loads(kept)["done"]) == (caps, True)
    sql = "SELECT s.caps FROM sync_runs s JOIN runs r ON r.id = s.run WHERE r.job_id = ?"
    assert asked(slurm, sql, number) == [(caps,)]
    assert "gradient buckets of its decision" in dlqueue(slurm, "explain", str(number))
