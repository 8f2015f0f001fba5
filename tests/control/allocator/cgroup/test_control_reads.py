"""Limits of reads: both versions' files, the disk of a path, and the real kernel on a real disk."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.control.allocator.actuator import limit_reads
from slurm_ext.control.allocator.cgroup.cpu import Share, undo
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, JobLocation
from slurm_ext.control.allocator.cgroup.reads import V1, device_of, disk_of
from slurm_ext.policy.allocator.max_min_share import capped
from slurm_ext.policy.allocator.operating_points import OperatingPoint
from tests.control.cgroup_trees import version_2

MIB = 2**20
BLKIO = Path("/sys/fs/cgroup/blkio")
NODE = f"dlqread{os.getpid()}"


def reader(mib_per_s: float) -> OperatingPoint:
    """A job that reads so much."""
    return OperatingPoint(units=1, workers=1, samples_per_s=1.0, io_bytes_per_s=mib_per_s * MIB)


def test_only_those_are_limited_who_ask_for_more_than_there_is() -> None:
    """The water level holds whoever reaches it; enough for all, or a single reader: nobody."""
    points = {"small": reader(10), "large": reader(45), "huge": reader(45), "none": reader(0)}
    assert capped(points, 100 * MIB) == {"large": 45 * MIB, "huge": 45 * MIB}
    assert capped(points, 101 * MIB) == {}
    assert capped({"alone": reader(100), "none": reader(0)}, 100 * MIB) == {}
    assert capped({}, 100 * MIB) == {}


def test_the_file_of_version_2_and_back(tmp_path: Path) -> None:
    """`io.max` of the job's group; undone by another controller, other limits stay."""
    place = JobLocation(job_id=7, uid=1000, node="n1", mount=str(tmp_path / "cgroup"))
    job = version_2(Path(place.mount), place, "0-3")
    (job / "io.max").write_text("8:0 rbps=5000 wbps=max riops=max wiops=max\n")
    share = Share(place)
    share.read_at_most(3.5 * MIB, "8:0")
    assert (job / "io.max").read_text() == f"8:0 rbps={3.5 * MIB:.0f}"
    undo(place, share.kept)
    assert (job / "io.max").read_text() == "8:0 rbps=5000"
    share.read_at_most(MIB, "259:1")
    share.read_at_most(None, "259:1")
    assert (job / "io.max").read_text() == "259:1 rbps=max"
    assert share.kept == {}


def test_a_job_without_such_a_file_is_left_alone(tmp_path: Path) -> None:
    """Slurm's version 2 groups may have no io controller: nothing is kept, nothing is to undo."""
    place = JobLocation(job_id=7, uid=1000, node="n1", mount=str(tmp_path / "cgroup"))
    version_2(Path(place.mount), place, "0-3")
    share = Share(place)
    with pytest.raises(Exception, match="no reads can be limited"):
        share.read_at_most(MIB, "8:0")
    assert share.kept == {}


def test_the_disk_of_a_path(tmp_path: Path) -> None:
    """A partition's is its disk; a file system without a disk, and no file at all, have none."""
    number = tmp_path.stat().st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    sysfs = tmp_path / "sys"
    partition = tmp_path / "devices/sda/sda1"
    partition.mkdir(parents=True)
    sysfs.mkdir()
    assert device_of(str(tmp_path), str(sysfs)) is None
    (sysfs / name).symlink_to(partition)
    (partition / "dev").write_text(f"{name}\n")
    assert device_of(str(tmp_path), str(sysfs)) == name
    (partition / "partition").write_text("1\n")
    (partition.parent / "dev").write_text("8:0\n")
    assert device_of(str(tmp_path), str(sysfs)) == "8:0"
    assert disk_of("") is None
    assert disk_of(str(tmp_path / "none")) is None
    assert disk_of("/proc") is None


class FakeShare:
    """Takes note of the limits; one that is gone says so."""

    def __init__(self, now: float | None = None, *, gone: bool = False) -> None:
        self.read_bytes_per_s, self.gone = now, gone

    def read_at_most(self, bytes_per_s: float | None, device: str) -> None:
        """As control/allocator/cgroup/cpu.py's."""
        assert device == "8:0"
        if self.gone:
            raise JobGoneError("gone")
        self.read_bytes_per_s = bytes_per_s


def test_limits_follow_the_level_and_end_with_it() -> None:
    """A new one, one that moved, one that hardly did, one that is over, and a job that is gone."""
    shares = {
        "new": FakeShare(),
        "moved": FakeShare(50.0),
        "same": FakeShare(102.0),
        "over": FakeShare(50.0),
        "free": FakeShare(),
        "gone": FakeShare(gone=True),
    }
    controlled: Any = {name: SimpleNamespace(share=share) for name, share in shares.items()}
    most = dict.fromkeys(("new", "moved", "same", "gone"), 100.0)
    assert limit_reads(controlled, most, "8:0") == {"new": 100.0, "moved": 100.0, "over": 0.0}
    limits = {name: share.read_bytes_per_s for name, share in shares.items()}
    assert limits == {
        "new": 100.0,
        "moved": 100.0,
        "same": 102.0,
        "over": None,
        "free": None,
        "gone": None,
    }


READER = """
import os, sys
print(flush=True)
sys.stdin.readline()
fd = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
while os.read(fd, 65536):
    pass
print("read", flush=True)
sys.stdin.readline()
"""


def counted(group: Path, device: str) -> int:
    """Bytes that the kernel let the group read from the device."""
    rows = (group / "blkio.throttle.io_service_bytes").read_text().splitlines()
    return sum(int(row.split()[2]) for row in rows if row.startswith(f"{device} Read"))


@pytest.fixture
def on_disk(tmp_path: Path) -> tuple[Path, str]:
    """A file of four MiB that is on a disk and not in the page cache, and the disk."""
    if not (BLKIO / V1).exists() or not os.access(BLKIO, os.W_OK):
        pytest.skip("needs cgroup version 1 and root, with a blkio controller")
    device = device_of(str(tmp_path))
    if device is None:
        pytest.skip("the tests' folder is on no disk: the kernel counts no reads of it")
    path = tmp_path / "data"
    path.write_bytes(os.urandom(4 * MIB))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path, device


@pytest.mark.root
def test_the_kernel_limits_a_real_job(on_disk: tuple[Path, str]) -> None:
    """A group of ours holds the reader to its rate; undone, it is gone and the job reads on."""
    path, device = on_disk
    env = {**os.environ, "SLURM_JOB_ID": "4713", "SLURMD_NODENAME": NODE}
    argv = [sys.executable, "-c", READER, str(path)]
    with subprocess.Popen(
        argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        place = JobLocation(job_id=4713, uid=os.geteuid(), node=NODE)
        share = Share(place)
        try:
            share.read_at_most(8 * MIB, device)
            own = BLKIO / f"dlqueue_{NODE}_4713"
            assert (own / V1).read_text().split() == [device, str(8 * MIB)]
            assert (own / "cgroup.procs").read_text().split() == [str(child.pid)]
            began_s = time.monotonic()
            child.stdin.write("\n")
            child.stdin.flush()
            child.stdout.readline()
            took_s = time.monotonic() - began_s
            read = counted(own, device)
        finally:
            undo(place, share.kept)
            child.kill()
        if read < 3 * MIB:
            pytest.skip(f"the kernel counted {read} bytes of 4 MiB: the cache held the file")
        assert read / took_s < 1.5 * 8 * MIB  # never faster than allowed; slower a busy disk may be
        assert not own.exists()
