"""Ranks of one GPU sum gradients in memory that they share, or by gloo where they cannot."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from slurm_ext.ranks import shared

PROGRAM = str(Path(__file__).parent / "sharing_ranks.py")
ROOT = Path(__file__).parents[2]
LINE = re.compile(r"shares (\w+) far (\S+) fine (\w+) bits (\w+)")


def sums(ranks_per_gpu: int, folder: str, gpus: str) -> list[tuple[str, ...]]:
    """What each rank printed."""
    command = [sys.executable, "-m", "slurm_ext.ranks", "--ranks-per-gpu", str(ranks_per_gpu)]
    env = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": gpus}
    argv = [*command, PROGRAM, str(ranks_per_gpu), folder]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return LINE.findall(done.stdout)


@pytest.mark.parametrize(
    ("folder", "gpus", "shares"),
    [
        ("/dev/shm", "0", "True"),
        ("/dev/shm", "0,1", "True"),
        ("/nowhere", "0", "False"),
        ("another node", "0", "False"),
    ],
    ids=["one GPU", "two GPUs", "no shared memory", "a neighbour's file is not here"],
)
def test_sums_are_those_of_a_plain_addition(folder: str, gpus: str, shares: str) -> None:
    """Any size, kind and layout, the same bits on all ranks; where one cannot share, none does."""
    found = sums(2, folder, gpus)
    assert len(found) == 2 * len(gpus.split(","))
    assert {rank[0] for rank in found} == {shares}
    assert max(float(rank[1]) for rank in found) < 1e-5
    assert {rank[2] for rank in found} == {"True"}
    assert len({rank[3] for rank in found}) == 1
    assert not [*Path("/dev/shm").glob("dlqueue-ranks-*")]


def test_a_neighbours_file_that_is_absent_is_not_made() -> None:
    """Torch would make one of zeros, and every sum would lack that neighbour."""
    path = "/dev/shm/dlqueue-ranks-nobody"
    with pytest.raises(FileNotFoundError):
        shared._opened(path, torch.device("cpu"), 4096)
    assert not Path(path).exists()
