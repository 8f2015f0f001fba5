"""Mechanisms of a node, units of its jobs, and the times when Slurm is asked, exactly."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.allocator import decision_log
from slurm_ext.control.allocator.cgroup.job_location import (
    JobLocation,
)
from slurm_ext.control.allocator.jobs import RunningJob, SpooledJob
from slurm_ext.control.allocator.node import Machine, node_mechanisms, slurm_cpus
from slurm_ext.control.allocator.slurm import EVERY_S, EVERY_WHERE_LENT_S, SlurmNodeQuery
from slurm_ext.slurm import JobInfo, MemoryClient, NodeInfo
from tests.control.allocator.test_control_hostile import summary

NO_MULTIPLE = " is no multiple of control.grain_cores = 2"


def spooled(cpus: int = 2, gpus: int = 0, why_not: str | None = None) -> SpooledJob:
    """A job of this node."""
    return SpooledJob(
        key="1.0",
        run_dir="/nonexistent",
        place=JobLocation(job_id=1, uid=0, node="n1"),
        cpus=cpus,
        gpus=gpus,
        why_not=why_not,
    )


def running(*summaries: Any, **fields: Any) -> RunningJob:
    """The job with its live summaries."""
    return RunningJob(job=spooled(**fields), summaries=summaries, curve=None)


def test_units_of_a_node() -> None:
    """Slurm's CPUs are real cores at most; grains are whole."""
    half = Machine(real_cores=4, slurm_cpus=8, grain_cores=0.25)
    assert (half.scale, half.units(1), half.units(3)) == (0.5, 2, 6)
    more = Machine(real_cores=16, slurm_cpus=8, grain_cores=1.0)
    assert (more.scale, more.units(3)) == (1.0, 3)
    assert Machine(real_cores=3, slurm_cpus=8, grain_cores=0.25).units(1) == 1


@pytest.mark.parametrize(
    ("job", "grain", "why"),
    [
        (running({}, cpus=2), 1.0, None),
        (running({}, cpus=7), 1.0, None),
        (running({}, cpus=8), 1.0, "it has the node to itself"),
        (running({}, cpus=2, why_not="of several nodes"), 1.0, "of several nodes"),
        (running(cpus=2), 1.0, "no training that the probe knows runs in it"),
        (
            running({}, cpus=1),
            2.0,
            "its share of 1 cores" + NO_MULTIPLE,
        ),
        (
            running({}, cpus=3),
            2.0,
            "its share of 3 cores" + NO_MULTIPLE,
        ),
        (running({}, cpus=4), 2.0, None),
    ],
)
def test_jobs_that_are_left_alone(job: RunningJob, grain: float, why: str | None) -> None:
    """Each with its reason; a whole number of grains is controlled."""
    assert Machine(real_cores=8, slurm_cpus=8, grain_cores=grain).why_not(job) == why


def test_cpus_of_a_node_are_never_guessed_upwards() -> None:
    """Slurm's answer, or the real cores, and at least what its jobs were given."""
    jobs = [running(cpus=3), running(cpus=2)]
    assert slurm_cpus(8, 4, jobs) == 8
    assert slurm_cpus(None, 4, jobs) == 5
    assert slurm_cpus(None, 6, jobs) == 6
    assert slurm_cpus(2, 6, jobs) == 5
    assert slurm_cpus(0, 0, []) == 1


class Clock:
    """A clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)


def cluster() -> MemoryClient:
    """A node of eight CPUs, three of them given to a job."""
    node = NodeInfo(name="n1", cpus=8, mem_mib=1, state="MIXED")
    job = JobInfo(job_id=1, state="RUNNING", nodes="n1", cpus=3, end_time_s=5000)
    return MemoryClient(known_nodes=(node,), known_jobs=(job,))


@pytest.mark.parametrize(("lends", "every_s"), [(False, EVERY_S), (True, EVERY_WHERE_LENT_S)])
def test_slurm_is_asked_now_and_then(
    monkeypatch: pytest.MonkeyPatch, lends: bool, every_s: float
) -> None:
    """Again when it is due, or when other jobs run; idle CPUs count only where they are lent."""
    clock, client = Clock(monkeypatch), cluster()
    query = SlurmNodeQuery(client, lends_idle=lends)
    view = query.look("n1", frozenset({"1.0"}))
    assert (view.cpus, view.idle_cpus, dict(view.end_s)) == (8, 5 if lends else 0, {1: 5000.0})
    client.known_nodes = ()
    clock.now_s += every_s - 0.001
    assert query.look("n1", frozenset({"1.0"})).cpus == 8
    clock.now_s += 0.001
    assert query.look("n1", frozenset({"1.0"})).cpus is None
    client.known_nodes = cluster().known_nodes
    assert query.look("n1", frozenset({"1.0"})).cpus is None
    assert query.look("n1", frozenset({"2.0"})).cpus == 8


def test_jobs_on_several_nodes_leave_nothing_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which CPUs of this node they have is not known; jobs that wait have none."""
    Clock(monkeypatch)
    for nodes in ("n1,n2", "n[1-2]"):
        client = cluster()
        wide = JobInfo(job_id=2, state="RUNNING", nodes=nodes, cpus=4)
        client.known_jobs = (*client.known_jobs, wide)
        assert SlurmNodeQuery(client, lends_idle=True).look("n1", frozenset()).idle_cpus == 0
    client = cluster()
    waits = JobInfo(job_id=2, state="PENDING", nodes="n1", cpus=4)
    stands = JobInfo(job_id=3, state="SUSPENDED", nodes="n1", cpus=4)
    client.known_jobs = (*client.known_jobs, waits, stands)
    assert SlurmNodeQuery(client, lends_idle=True).look("n1", frozenset()).idle_cpus == 1


def later(workers: float, wall_s: float = 10.0, samples: int = 900) -> dict[str, Any]:
    """A summary whose loader had so many workers on average since the start."""
    return summary(
        samples=samples,
        batches=samples // 8,
        wall_s=wall_s,
        wait_s=wall_s * 0.4,
        step_s=wall_s * 0.5,
        workers=workers,
        fetch_samples=samples,
        fetch_wall_s=samples * 0.019,
        fetch_cpu_s=samples * 0.018,
        main_cpu_s=wall_s * 0.01,
    )


def test_the_decision_log_begins_again_when_it_has_grown(tmp_path: Path) -> None:
    """Beyond a MiB; the old lines are kept beside it."""
    path = tmp_path / "decisions.jsonl"
    decision_log.append(path, acted=True, units=3)
    (line,) = path.read_text().splitlines()
    assert {"acted": True, "units": 3}.items() <= json.loads(line).items()
    path.write_bytes(b"x" * decision_log.MAX_BYTES)
    decision_log.append(path, acted=False)
    assert path.stat().st_size > decision_log.MAX_BYTES
    decision_log.append(path, acted=False)
    assert len(path.read_text().splitlines()) == 1
    assert path.with_suffix(".jsonl.1").exists()


@pytest.mark.parametrize(
    ("controllers", "found"),
    [
        ("cpu cpuset io", ("quota", "cpuset", "affinity")),
        ("cpu io", ("quota", "affinity")),
        ("cpuset", ("cpuset", "affinity")),
        ("", ("affinity",)),
    ],
)
def test_mechanisms_of_a_node(tmp_path: Path, controllers: str, found: tuple[str, ...]) -> None:
    """By the controllers of version 2, or the files of version 1."""
    (tmp_path / "cgroup.controllers").write_text(controllers)
    assert node_mechanisms(str(tmp_path)) == found
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1")
    (tmp_path / "cpuset").mkdir()
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0")
    assert node_mechanisms(str(tmp_path)) == ("quota", "cpuset", "affinity")
