"""Shares on the real kernel, version 1, with groups laid out as Slurm lays them out."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from slurm_ext.control.allocator.cgroup.cpu import Share, undo
from slurm_ext.control.allocator.cgroup.job_location import JobLocation
from tests.control.cgroup_trees import real_cpusets, removed
from tests.whole import until

CGROUPS = Path("/sys/fs/cgroup")
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        not (CGROUPS / "cpuset/cpuset.cpus").exists()
        or not (CGROUPS / "cpu/cpu.cfs_period_us").exists()
        or len(os.sched_getaffinity(0)) < 2,
        reason="needs cgroup version 1 and two cores",
    ),
]
NODE = f"dlqtest{os.getpid()}"


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """A job's process, as its environment tells."""
    env = {**os.environ, "SLURM_JOB_ID": "4712", "SLURMD_NODENAME": NODE}
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=env)
    yield child
    child.kill()
    child.wait()


@pytest.fixture
def place() -> JobLocation:
    """Where it is."""
    return JobLocation(job_id=4712, uid=os.geteuid(), node=NODE)


@pytest.fixture
def constrained(child: "subprocess.Popen[bytes]") -> Iterator[Path]:
    """The process's step, constrained to core 0 as under ConstrainCores=yes."""
    folders = real_cpusets(NODE, 4712, "0")
    (folders[-1] / "cgroup.procs").write_text(str(child.pid))
    yield folders[-1]
    child.kill()
    child.wait()
    for folder in reversed(folders):
        until(partial(removed, folder), "a process stays")


def test_a_constrained_job_gets_another_core_and_gives_it_back(
    constrained: Path, place: JobLocation, child: "subprocess.Popen[bytes]"
) -> None:
    """The kernel takes what is written, in that order; undone by another controller."""
    share = Share(place)
    assert share.own_cores == frozenset({0})
    share.pin(frozenset({0, 1}))
    assert os.sched_getaffinity(child.pid) == {0, 1}
    share.pin(frozenset({1}))
    assert os.sched_getaffinity(child.pid) == {1}
    undo(place, share.kept)
    assert os.sched_getaffinity(child.pid) == {0}
    assert (constrained / "cpuset.cpus").read_text().strip() == "0"
    assert (constrained.parents[1] / "cpuset.cpus").read_text().strip() == "0"


def test_a_quota_where_slurm_has_no_group(
    place: JobLocation, child: "subprocess.Popen[bytes]"
) -> None:
    """A group of ours holds the job and what it forks; undone, nothing of it is left."""
    share = Share(place)
    assert "quota" in share.mechanisms
    share.limit(0.75)
    own = CGROUPS / f"cpu/dlqueue_{NODE}_4712"
    assert int((own / "cpu.cfs_quota_us").read_text()) == 15_000
    assert (own / "cgroup.procs").read_text().split() == [str(child.pid)]
    undo(place, share.kept)
    assert not own.exists()
    assert f"dlqueue_{NODE}" not in Path(f"/proc/{child.pid}/cgroup").read_text()


def test_a_weight_where_slurm_has_no_group(
    place: JobLocation, child: "subprocess.Popen[bytes]"
) -> None:
    """A core weighs as one busy process does, or more; a quota beside it; undone, all is gone."""
    share = Share(place)
    assert share.lends
    share.weigh(0.75, 2.0, 1.5)
    own = CGROUPS / f"cpu/dlqueue_{NODE}_4712"
    assert (own / "cpu.shares").read_text().strip() == "768"
    assert (own / "cpu.cfs_quota_us").read_text().strip() == "30000"
    assert (own / "cgroup.procs").read_text().split() == [str(child.pid)]
    assert share.held_cores == 1.5
    share.weigh(0.75, 2.0, 0.75, latency_weight=8.0)
    assert (own / "cpu.shares").read_text().strip() == "6144"
    assert (own / "cpu.cfs_quota_us").read_text().strip() == "15000"
    assert share.held_cores == 0.75
    undo(place, share.kept)
    assert not own.exists()
    assert f"dlqueue_{NODE}" not in Path(f"/proc/{child.pid}/cgroup").read_text()


SPIN = "print(flush=True)\nwhile True: pass"


@pytest.fixture
def two_on_a_core() -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Two jobs' processes that want all of the same core."""
    core = min(os.sched_getaffinity(0))
    children = [
        subprocess.Popen(
            [sys.executable, "-c", SPIN],
            env={**os.environ, "SLURM_JOB_ID": job, "SLURMD_NODENAME": NODE},
            stdout=subprocess.PIPE,
        )
        for job in ("4715", "4716")
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
        os.sched_setaffinity(child.pid, {core})
    yield children
    for child in children:
        child.kill()
        child.communicate()


def _spent_s(child: "subprocess.Popen[bytes]") -> float:
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_weights_divide_what_is_wanted_and_lend_what_is_not(
    two_on_a_core: list["subprocess.Popen[bytes]"],
) -> None:
    """Both busy: a quarter and three; one asleep: the other has far more than its quarter."""
    few, many = two_on_a_core
    shares = [Share(JobLocation(job_id=job, uid=os.geteuid(), node=NODE)) for job in (4715, 4716)]
    try:
        shares[0].weigh(0.5, 1.0, 2.0)
        shares[1].weigh(1.5, 1.0, 2.0)
        before = [_spent_s(few), _spent_s(many)]
        until(lambda: _spent_s(many) > before[1] + 0.6, "the heavier one does not run")
        lighter = _spent_s(few) - before[0]
        assert 0.1 < lighter < 0.35  # 0.2 by weights, in ticks of 10 ms
        many.send_signal(signal.SIGSTOP)
        stopped = _spent_s(many)
        lent = _spent_s(few)
        until(lambda: _spent_s(few) > lent + 0.3, "what is left is not lent")
        assert _spent_s(many) - stopped < 0.1
    finally:
        for share in shares:
            undo(share.place, share.kept)
