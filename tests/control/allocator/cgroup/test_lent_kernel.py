"""Lent workers on the real kernel, version 1, with groups laid out as Slurm lays them out."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from slurm_ext.control.allocator.cgroup.job_location import JobLocation
from slurm_ext.control.allocator.cgroup.lent_cpus import LentCpus, undo_loan
from slurm_ext.control.allocator.cgroup.lent_threads import lent_workers
from tests.control.cgroup_trees import real_cpusets, removed
from tests.whole import until

CGROUPS = Path("/sys/fs/cgroup")
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        not (CGROUPS / "cpuset/cpuset.cpus").exists() or len(os.sched_getaffinity(0)) < 2,
        reason="needs cgroup version 1 and two cores",
    ),
]
NODE = f"dlqlent{os.getpid()}"
OWN, LENT = frozenset({0}), frozenset({1})
# A training with a worker at the usual priority, and another that lowers itself.
TRAINING = """
import os, sys, time
usual, lent = os.fork(), 0
if usual:
    lent = os.fork()
    if not lent:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
if usual and lent:
    print(usual, lent, flush=True)
time.sleep(60)
"""


@pytest.fixture
def folders() -> Iterator[list[Path]]:
    """The cpusets of a job with one step on core 0 as under ConstrainCores."""
    made = real_cpusets(NODE, 4713, "0")
    yield made
    for folder in reversed(made):
        until(partial(removed, folder), "a killed process stays")


@pytest.fixture
def training(folders: list[Path]) -> Iterator[tuple[int, int, int]]:
    """The pids of a training, its usual worker and its lent one, in the job's step."""
    env = {**os.environ, "SLURM_JOB_ID": "4713", "SLURMD_NODENAME": NODE}
    join = f"echo $$ > {folders[-1]}/cgroup.procs; exec {sys.executable} -c '{TRAINING}'"
    child = subprocess.Popen(["/bin/sh", "-c", join], env=env, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    usual, lent = map(int, child.stdout.readline().split())
    until(lambda: os.sched_getscheduler(lent) == os.SCHED_IDLE, "it does not lower itself")
    yield child.pid, usual, lent
    for pid in (usual, lent, child.pid):
        with suppress(OSError):
            os.kill(pid, 9)
    child.communicate()


@pytest.fixture
def place() -> JobLocation:
    """Where it is."""
    return JobLocation(job_id=4713, uid=os.geteuid(), node=NODE)


def group(controller: str) -> Path:
    """Our own group."""
    return CGROUPS / controller / f"dlqueue_lent_{NODE}_4713"


def slurms(folders: list[Path]) -> list[str]:
    """Cores of Slurm's groups."""
    return [(folder / "cpuset.cpus").read_text().strip() for folder in folders[1:]]


def lend(place: JobLocation, training: tuple[int, int, int]) -> LentCpus:
    """Core 1 for its lent worker."""
    cpus = LentCpus(place)
    own = cpus.own_cores(training[:1])
    assert own == OWN
    workers = lent_workers(place, place.pids(), training[:1])
    assert workers == training[2:]
    cpus.give(own, LENT, workers)
    return cpus


def test_the_lent_worker_alone_gets_another_core(
    folders: list[Path], place: JobLocation, training: tuple[int, int, int]
) -> None:
    """At idle priority in groups of ours; no group of Slurm's is another, nor any other process."""
    main, usual, lent = training
    cpus = lend(place, training)
    assert [os.sched_getaffinity(pid) for pid in training] == [OWN, OWN, OWN | LENT]
    assert slurms(folders) == ["0"] * 3
    assert (group("cpuset") / "cgroup.procs").read_text().split() == [str(lent)]
    if (CGROUPS / "cpu/cpu.idle").exists():
        assert (group("cpu") / "cpu.idle").read_text().strip() == "1"
    cpus.give(OWN, LENT, [lent])  # once more changes nothing
    assert cpus.restore()
    assert [os.sched_getaffinity(pid) for pid in training] == [OWN] * 3
    assert [os.sched_getscheduler(pid) for pid in (main, usual, lent)] == [os.SCHED_OTHER] * 3
    assert not group("cpuset").exists()
    assert not group("cpu").exists()
    assert "step_batch" in Path(f"/proc/{lent}/cgroup").read_text()


def test_a_step_that_starts_finds_slurms_groups_as_slurm_left_them(
    folders: list[Path], place: JobLocation, training: tuple[int, int, int]
) -> None:
    """It writes the job's cores again and makes its own group; the loan goes on beside it."""
    cpus = lend(place, training)
    step = folders[-2] / "step_0"
    (folders[-2] / "cpuset.cpus").write_text("0")
    step.mkdir()
    try:
        for name in ("cpuset.mems", "cpuset.cpus"):
            (step / name).write_text((folders[-2] / name).read_text())
        assert os.sched_getaffinity(training[2]) == OWN | LENT
        assert cpus.restore()
    finally:
        step.rmdir()
    assert slurms(folders) == ["0"] * 3


def test_another_process_undoes_it_from_the_note_alone(
    place: JobLocation, training: tuple[int, int, int]
) -> None:
    """The note is JSON, and is there before anything is changed."""
    notes: list[str] = []
    cpus = LentCpus(place, note=lambda: notes.append(json.dumps(cpus.kept)))
    cpus.give(OWN, LENT, training[2:])
    cpus.give(OWN, LENT, training[2:])
    (note,) = notes
    assert undo_loan(JobLocation(job_id=4713, uid=place.uid, node=NODE), json.loads(note))
    assert os.sched_getaffinity(training[2]) == OWN
    assert os.sched_getscheduler(training[2]) == os.SCHED_OTHER
    assert not group("cpuset").exists()


def test_a_killed_borrower_leaves_empty_groups_that_go(
    place: JobLocation, training: tuple[int, int, int]
) -> None:
    """Whoever undoes it; a loan of a job that is gone is no error."""
    cpus = lend(place, training)
    for pid in training:
        os.kill(pid, 9)
    until(cpus.restore, "a group of ours stays")
    assert not group("cpuset").exists()
    assert not group("cpu").exists()
    assert cpus.restore()


def test_a_process_that_only_says_so_is_no_lent_worker(
    place: JobLocation, training: tuple[int, int, int]
) -> None:
    """Idle priority, parent, job and user decide, by the kernel: nobody else's is one."""
    main, usual, lent = training
    pids = place.pids()
    assert lent_workers(place, pids, [usual]) == ()
    assert lent_workers(place, pids - {lent}, [main]) == ()
    assert lent_workers(place, pids, [os.getpid()]) == ()
    other = JobLocation(job_id=4713, uid=place.uid + 1, node=NODE)
    assert lent_workers(other, pids, [main]) == ()
    os.sched_setscheduler(lent, os.SCHED_OTHER, os.sched_param(0))
    assert lent_workers(place, pids, [main]) == ()
