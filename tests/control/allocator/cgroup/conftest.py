"""Fixtures of these tests."""

from pathlib import Path

import pytest

from slurm_ext.control.allocator.cgroup.job_location import JobLocation
from slurm_ext.control.allocator.cgroup.reads import V1
from tests.control.allocator.cgroup.plain_groups import PlaceOf12


@pytest.fixture
def place(tmp_path: Path) -> JobLocation:
    """A job of a machine that is a folder."""
    (tmp_path / "cgroup").mkdir()
    return JobLocation(job_id=7, uid=1000, node="n1", mount=str(tmp_path / "cgroup"))


@pytest.fixture
def ungrouped(tmp_path: Path) -> JobLocation:
    """A job that Slurm made no group for, in /work of every version 1 hierarchy."""
    mount, process = tmp_path / "cgroup", tmp_path / "proc/12"
    process.mkdir(parents=True)
    (process / "cgroup").write_text("9:cpuset:/no\n4:cpuacct,cpu:/work\n3:blkio:/work:2\n0::/no\n")
    for folder in ("cpu/work", "blkio/work:2"):
        (mount / folder).mkdir(parents=True)
    for name in ("cpu/cpu.cfs_period_us", "cpu/cpu.shares", f"blkio/{V1}"):
        (mount / name).write_text("")
    return PlaceOf12(job_id=7, uid=1000, node="n1", mount=str(mount), proc=str(tmp_path / "proc"))
