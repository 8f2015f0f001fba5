"""Reads of a disk that two jobs share: the controller on a real Slurm and the real kernel."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.control.allocator.cgroup.reads import V1, device_of
from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.integration.test_control import SETTINGS, controller
from tests.whole import until

pytestmark = [pytest.mark.slurm, pytest.mark.root]

MIB = 2**20
BLKIO = Path("/sys/fs/cgroup/blkio")
STORAGE_MIB_PER_S = 16.0
# Each sample is read from the disk, past the page cache.
READER = """
import mmap, os, sys, time, torch
from torch.utils.data import DataLoader, Dataset

SIZE, COUNT = 1 << 18, 64
os.environ["DLQUEUE_EMULATED"] = "1"  # its step sleeps where a GPU would compute

class Samples(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
        with mmap.mmap(-1, SIZE) as page:
            os.preadv(file, [page], index % COUNT * SIZE)
        os.close(file)
        return torch.tensor(index)

seen = []
for batch in DataLoader(Samples(), batch_size=4, num_workers=2):
    time.sleep(0.002)
    seen += batch.tolist()
    if os.path.exists(sys.argv[2]):
        break
print("in order", seen == list(range(len(seen))))
"""


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on a disk of this machine, whose reads the kernel can throttle."""
    if not (BLKIO / "blkio.throttle.io_serviced").exists():
        pytest.skip("needs cgroup version 1 with a blkio controller that throttles")
    folder = tmp_path_factory.mktemp("disk")
    if device_of(str(folder)) is None:
        pytest.skip(f"{folder} is on no disk of this machine")
    return folder


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox, disk: Path) -> Iterator[Sandbox]:
    """A node whose disk is said to give 16 MiB/s."""
    storage = {"control.storage_path": str(disk), "control.storage_mib_per_s": STORAGE_MIB_PER_S}
    sandbox = make_module_sandbox(
        hooks=True, control=True, cpus=8, settings={**SETTINGS, **storage}
    )
    sandbox.path("read.py").write_text(READER)
    yield sandbox
    sandbox.stop(controller(sandbox))


def read(slurm: Sandbox, data: Path, end: Path) -> int:
    """A training that reads a file of its own until there is a file `end`."""
    script = f"#!/bin/sh\nexec python3 {slurm.path('read.py')} {data} {end}\n"
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return slurm.sbatch("-c4", script=script, env=path)[0]


def limit(slurm: Sandbox, job: int) -> float | None:
    """MiB/s that the kernel lets the job read; None: as much as it likes."""
    try:
        said = (BLKIO / f"dlqueue_{slurm.nodes[0]}_{job}" / V1).read_text().split()
    except FileNotFoundError:
        return None
    return int(said[1]) / MIB if said else None


def test_two_readers_share_what_the_disk_gives_and_nothing_stays(
    slurm: Sandbox, disk: Path
) -> None:
    """Both are held to a part of it, by the kernel; when one ends the other is free again."""
    jobs, ends = [], []
    for number in range(2):
        data, end = disk / f"data{number}", slurm.path(f"end{number}")
        with data.open("wb") as file:
            file.write(os.urandom(16 * MIB))
            os.fsync(file.fileno())
        ends.append(end)
        jobs.append(read(slurm, data, end))
    first, second = jobs
    try:
        until(lambda: all(limit(slurm, job) for job in jobs), "nobody's reads are limited")
        limits = [limit(slurm, job) or 0.0 for job in jobs]
        assert all(0 < one < STORAGE_MIB_PER_S for one in limits), limits
        ends[0].touch()
        assert slurm.wait(first) == "COMPLETED"
        until(lambda: limit(slurm, second) is None, "who reads alone is still held back")
    finally:
        for end in ends:
            end.touch()
    assert slurm.wait(second) == "COMPLETED"
    assert [slurm.output(job).splitlines()[-1] for job in jobs] == ["in order True"] * 2
    groups = [BLKIO / f"dlqueue_{slurm.nodes[0]}_{job}" for job in jobs]
    until(lambda: not any(group.exists() for group in groups), "a group of ours stays")
