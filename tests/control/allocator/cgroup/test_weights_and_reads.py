"""Weights and limits of reads at their bounds, in control groups that are plain files."""

import logging
from pathlib import Path

import pytest

from slurm_ext.control.allocator.cgroup.job_location import JobLocation
from slurm_ext.control.allocator.cgroup.quota import Weight
from slurm_ext.control.allocator.cgroup.reads import V1, Reads, disk_of
from tests.control.allocator.cgroup.plain_groups import OWN, slurms_v1, texts
from tests.control.cgroup_trees import version_2


@pytest.mark.parametrize(
    ("cores", "mean_cores", "expected"),
    [
        (2.0, 2.0, "100"),
        (3.0, 2.0, "150"),
        (0.001, 2.0, "1"),
        (0.0, 2.0, "1"),
        (0.05, 2.0, "2"),
        (200.0, 2.0, "10000"),
        (201.0, 2.0, "10000"),
        (199.98, 2.0, "9999"),
    ],
)
def test_a_weight_of_version_2_stays_in_the_kernels_range(
    place: JobLocation, cores: float, mean_cores: float, expected: str
) -> None:
    """100 at the mean, from 1 to 10000."""
    job = version_2(Path(place.mount), place, "0-3")
    (job / "cpu.weight").write_text("77\n")
    weight = Weight(place)
    assert weight.usable
    weight.give(cores, mean_cores)
    assert (job / "cpu.weight").read_text() == expected
    assert weight.restore() is True
    assert (job / "cpu.weight").read_text() == "77"


@pytest.mark.parametrize(
    ("cores", "expected"),
    [(1.0, "1024"), (0.5, "512"), (0.001, "2"), (0.003, "3"), (256.0, "262144"), (300.0, "262144")],
)
def test_a_weight_in_a_group_of_ours(ungrouped: JobLocation, cores: float, expected: str) -> None:
    """1024 for each core, from 2 to 262144, whatever the mean of the others is."""
    weight = Weight(ungrouped)
    assert weight.usable
    weight.give(cores, 8.0)
    own = Path(ungrouped.mount, "cpu/work", OWN)
    assert texts(own) == {"cgroup.procs": "12", "cpu.shares": expected}


@pytest.mark.parametrize("controller", ["cpu", "cpuacct"])
def test_no_weight_where_slurm_has_groups_below_users(
    ungrouped: JobLocation, controller: str
) -> None:
    """Shares below a user's group would hold against that user's other jobs only."""
    assert Weight(ungrouped).usable
    slurms_v1(ungrouped, controller, shares="1024")
    assert not Weight(ungrouped).usable


def test_reads_in_a_group_of_ours(ungrouped: JobLocation) -> None:
    """The device and bytes a second, rounded, never 0, which the kernel takes as no limit."""
    reads = Reads(ungrouped)
    assert reads.usable
    reads.plan("8:0")
    own = Path(ungrouped.mount, "blkio/work:2", OWN)
    assert reads.kept["folder"] == str(own)
    for rate, expected in ((0.2, "8:0 1"), (1.0, "8:0 1"), (2.4, "8:0 2"), (3e9, "8:0 3000000000")):
        reads.give(rate)
        assert texts(own) == {"cgroup.procs": "12", V1: expected}
    for path in own.iterdir():
        path.unlink()
    assert reads.restore() is True
    assert not own.exists()


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", "8:0 rbps=max"),
        ("8:0 rbps=5 wbps=7", "8:0 rbps=5"),
        ("8:0 wbps=7", "8:0 rbps=max"),
        ("8:01 rbps=5\n9:0 rbps=6", "8:0 rbps=max"),
        ("9:0 rbps=6\n8:0 odd wbps=7 rbps=5", "8:0 rbps=5"),
    ],
)
def test_reads_of_version_2_come_back(place: JobLocation, before: str, expected: str) -> None:
    """The limit of the device alone, as it was; without one there is none again."""
    job = version_2(Path(place.mount), place, "0-3")
    (job / "io.max").write_text(before)
    reads = Reads(place)
    assert reads.usable
    reads.plan("8:0")
    reads.give(0.4)
    assert (job / "io.max").read_text() == "8:0 rbps=1"
    assert reads.restore() is True
    assert (job / "io.max").read_text() == expected


def test_a_storage_path_without_a_disk_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the setting, the path and the reason; no path at all is silent."""
    caplog.set_level(logging.WARNING, "dlqueue.control")
    assert disk_of("") is None
    assert disk_of(f"{tmp_path}/none") is None
    assert disk_of("/proc") is None
    assert caplog.messages == [
        f"control.storage_path = {tmp_path}/none: No such file or directory; no reads are limited",
        "control.storage_path = /proc is on no disk of this node: not limited",
    ]
