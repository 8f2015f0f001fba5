"""Lent workers under version 2, in plain files: groups are widened for them, and put back."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.control.allocator.cgroup.job_location import JobLocation
from slurm_ext.control.allocator.cgroup.lent_cpus import LentCpus, undo_loan
from tests.control.cgroup_trees import version_2
from tests.whole import until

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
SLEEP = "import time; print(flush=True); time.sleep(60)"
OWN, LENT = frozenset({0}), frozenset({1})


@pytest.fixture
def place(tmp_path: Path) -> JobLocation:
    """A job on core 0, whose processes' groups are told by files instead of the kernel."""
    return JobLocation(
        job_id=9, uid=os.geteuid(), node="n1", mount=str(tmp_path / "cg"), proc=str(tmp_path)
    )


@pytest.fixture
def job(place: JobLocation) -> Path:
    """Its group."""
    return version_2(Path(place.mount), place, "0")


@pytest.fixture
def pids(place: JobLocation, job: Path, tmp_path: Path) -> Iterator[tuple[int, int]]:
    """A usual process and a lent one, bound to core 0, in the job's task."""
    children = [subprocess.Popen([sys.executable, "-c", SLEEP], stdout=-1) for _ in range(2)]
    path = job.relative_to(place.mount) / "step_batch/user"
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
        os.sched_setaffinity(child.pid, OWN)
        folder = tmp_path / str(child.pid)
        (folder / "task" / str(child.pid)).mkdir(parents=True)
        (folder / "cgroup").write_text(f"0::/{path}\n")
    procs = "".join(f"{child.pid}\n" for child in children)
    (job / "step_batch/user/cgroup.procs").write_text(procs)
    yield children[0].pid, children[1].pid
    for child in children:
        child.kill()
        child.communicate()


def cores(job: Path) -> list[str]:
    """Of the job's, the step's and the task's group."""
    folders = (job, job / "step_batch", job / "step_batch/user")
    return [(folder / "cpuset.cpus").read_text().strip() for folder in folders]


def test_groups_are_widened_and_others_stay_where_they_are(
    place: JobLocation, job: Path, pids: tuple[int, int]
) -> None:
    """Where a group follows its parent it still does; undone from the note, all is as before."""
    lent = pids[1]
    cpus = LentCpus(place)
    assert cpus.own_cores(pids) == OWN
    cpus.give(OWN, LENT, [lent])
    assert cores(job) == ["0-1", "0-1", ""]
    assert cpus.own_cores(pids) == OWN
    assert [os.sched_getaffinity(pid) for pid in pids] == [OWN, OWN | LENT]
    assert [os.sched_getscheduler(pid) for pid in pids] == [os.SCHED_OTHER, os.SCHED_IDLE]
    assert undo_loan(place, cpus.kept)
    assert cores(job) == ["0", "0", ""]
    assert [os.sched_getaffinity(pid) for pid in pids] == [OWN, OWN]
    assert os.sched_getscheduler(lent) == os.SCHED_OTHER


def test_a_process_that_left_the_job_s_cores_is_brought_back(
    place: JobLocation, pids: tuple[int, int]
) -> None:
    """Older kernels spread everybody over a group that grows: the next look ends that."""
    usual, lent = pids
    cpus = LentCpus(place)
    cpus.give(OWN, LENT, [lent])
    os.sched_setaffinity(usual, OWN | LENT)
    cpus.give(OWN, LENT, [lent])
    assert os.sched_getaffinity(usual) == OWN


def test_what_slurm_writes_meanwhile_holds(
    place: JobLocation, job: Path, pids: tuple[int, int]
) -> None:
    """A step that starts sets the job's cores again, a resize sets others: neither is undone."""
    cpus = LentCpus(place)
    cpus.give(OWN, LENT, pids[1:])
    (job / "cpuset.cpus").write_text("0,3\n")
    assert cpus.own_cores(pids) == frozenset({0, 3})
    assert cpus.restore()
    assert cores(job) == ["0,3", "0", ""]
    until(lambda: os.sched_getaffinity(pids[1]) == OWN, "it stays where it was lent to")
