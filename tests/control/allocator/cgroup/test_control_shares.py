"""CPU shares: sets of cores, cgroup layouts of both versions, threads of a real process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.control.allocator.cgroup.affinity import Affinity
from slurm_ext.control.allocator.cgroup.cores import assign_cores, format_cores, parse_cores
from slurm_ext.control.allocator.cgroup.cpu import Share, undo
from slurm_ext.control.allocator.cgroup.cpuset import Cpuset
from slurm_ext.control.allocator.cgroup.job_location import JobLocation
from slurm_ext.control.allocator.cgroup.quota import Quota
from slurm_ext.control.allocator.node import node_mechanisms
from tests.control.cgroup_trees import version_1, version_2

CORES = st.frozensets(st.integers(0, 40))


@given(CORES)
def test_lists_of_cores_come_back(cores: frozenset[int]) -> None:
    """Linux's form of a set of cores, both ways."""
    assert parse_cores(format_cores(cores)) == cores


@pytest.mark.parametrize("text", ["0-", "x", "-1", "3-1", "0-99999999", "1 2"])
def test_what_is_no_list_of_cores(text: str) -> None:
    """A kernel would not write it: refused rather than guessed."""
    with pytest.raises(ValueError, match=r"."):
        parse_cores(text)


@given(st.data())
def test_cores_are_nobody_elses_and_stay_where_they_can(data: st.DataObject) -> None:
    """As many as wanted, of the pool, disjoint; a job that keeps its count keeps its cores."""
    pool = frozenset(range(data.draw(st.integers(1, 16))))
    jobs = ["a", "b", "c"]
    wanted: dict[str, int] = {}
    for job in jobs:
        wanted[job] = data.draw(st.integers(0, len(pool) - sum(wanted.values())))
    before = assign_cores(wanted, pool, {}, {})
    assert {job: len(cores) for job, cores in before.items()} == wanted
    assert sum(map(len, before.values())) == len(frozenset().union(*before.values()))
    assert frozenset().union(*before.values()) <= pool
    assert assign_cores(wanted, pool, before, {}) == before


@pytest.fixture
def place(tmp_path: Path) -> JobLocation:
    """A job of a machine that is a folder."""
    return JobLocation(job_id=7, uid=1000, node="n1", mount=str(tmp_path / "cgroup"))


@pytest.mark.parametrize("layout", [version_1, version_2])
def test_a_cpuset_grows_shrinks_and_comes_back(place: JobLocation, layout: object) -> None:
    """Steps get exactly the cores; the job's own group never gets fewer than Slurm gave it."""
    job = layout(Path(place.mount), place, "0-3")  # type: ignore[operator]
    cpuset = Cpuset(place)
    assert cpuset.cores == frozenset({0, 1, 2, 3})
    cpuset.plan(frozenset({2, 3, 4, 5, 6}))
    cpuset.give(frozenset({2, 3, 4, 5, 6}))
    assert (job / "step_batch/cpuset.cpus").read_text() == "2-6"
    assert parse_cores((job / "cpuset.cpus").read_text()) == set(range(7))
    cpuset.plan(frozenset({1}))
    cpuset.give(frozenset({1}))
    assert (job / "step_batch/cpuset.cpus").read_text() == "1"
    assert parse_cores((job / "cpuset.cpus").read_text()) >= {0, 1, 2, 3}
    Cpuset(place, cpuset.kept).restore()  # another controller
    assert {p.read_text() for p in job.rglob("cpuset.cpus")} <= {"0-3", "\n"}


def test_a_quota_of_version_2(place: JobLocation) -> None:
    """`cpu.max` of the job's group, and back to what it was."""
    job = version_2(Path(place.mount), place, "0-3")
    quota = Quota(place)
    assert quota.usable
    quota.give(0.75)
    assert (job / "cpu.max").read_text() == "15000 20000"
    quota.restore()
    assert (job / "cpu.max").read_text() == "max 100000"


def test_a_job_that_is_gone_needs_no_undoing(place: JobLocation) -> None:
    """Its groups went with it: restoring is silent and leaves nothing behind."""
    job = version_2(Path(place.mount), place, "0-3")
    share = Share(place)
    share.limit(0.5)
    kept = share.kept
    for path in sorted(job.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    job.rmdir()
    undo(place, kept)
    assert not job.exists()


SPIN = """
import threading, time
for _ in range(2):
    threading.Thread(target=time.sleep, args=(60,)).start()
"""


@pytest.fixture
def spinning() -> Iterator[JobLocation]:
    """A job's process with three threads, known by its environment as under linuxproc."""
    env = {**os.environ, "SLURM_JOB_ID": "4711", "SLURMD_NODENAME": "testnode"}
    child = subprocess.Popen([sys.executable, "-c", SPIN], env=env)
    place = JobLocation(job_id=4711, uid=os.geteuid(), node="testnode", mount="/nonexistent")
    while len(list(Path(f"/proc/{child.pid}/task").iterdir())) < 3:
        assert child.poll() is None
    yield place
    child.kill()
    child.wait()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_affinity_of_every_thread_but_the_users_own(spinning: JobLocation) -> None:
    """All threads move and come back; the one that the user pinned stays where it is."""
    all_cores = frozenset(os.sched_getaffinity(0))
    low, high = min(all_cores), max(all_cores)
    (pid,) = spinning.pids()
    threads = sorted(int(p.name) for p in Path(f"/proc/{pid}/task").iterdir())
    os.sched_setaffinity(threads[-1], {high})
    affinity = Affinity(spinning)
    affinity.plan(frozenset({low}))
    affinity.give(frozenset({low}))
    assert [os.sched_getaffinity(t) for t in threads] == [{low}, {low}, {high}]
    Affinity(spinning, affinity.kept).restore()
    assert [os.sched_getaffinity(t) for t in threads] == [all_cores, all_cores, {high}]


def test_means_of_a_node(tmp_path: Path) -> None:
    """Affinity everywhere; the rest where a hierarchy is there to write to."""
    assert node_mechanisms(str(tmp_path)) == ("affinity",)
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert node_mechanisms(str(tmp_path)) == ("quota", "affinity")


def test_a_weight_of_version_2(place: JobLocation) -> None:
    """Slurm's groups weigh alike: who is at the mean keeps that, and back to what it was."""
    job = version_2(Path(place.mount), place, "0-3")
    (job / "cpu.weight").write_text("100\n")
    share = Share(place)
    assert share.lends
    share.weigh(3.0, 2.0, 4.0)
    assert (job / "cpu.weight").read_text() == "150"
    share.weigh(0.5, 2.0, 0.5, latency_weight=8.0)
    assert (job / "cpu.weight").read_text() == "200"
    assert (job / "cpu.max").read_text() == "10000 20000"
    share.weigh(1e6, 2.0, 4.0)
    assert (job / "cpu.max").read_text() == "80000 20000"
    assert (job / "cpu.weight").read_text() == "10000"
    undo(place, share.kept)
    assert (job / "cpu.weight").read_text() == "100"
    assert (job / "cpu.max").read_text() == "max 100000"


def test_below_a_users_group_there_is_no_weight(place: JobLocation) -> None:
    """Version 1 with groups of Slurm's own: weights would hold within one user only."""
    group = Path(place.mount, "cpu", f"slurm_{place.node}", f"uid_{place.uid}")
    (group / f"job_{place.job_id}").mkdir(parents=True)
    (group / f"job_{place.job_id}/cpu.shares").write_text("1024\n")
    assert not Share(place).lends
