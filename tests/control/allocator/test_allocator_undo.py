"""What the node allocator takes back, and what it says of refused jobs."""

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.control.allocator import actuator
from slurm_ext.control.allocator.cgroup.job_location import (
    JobGoneError,
    JobLocation,
    UntrustedJobDirError,
)
from slurm_ext.control.allocator.controlled_job import MOST_RUNS, ControlledJob, WindowPace
from slurm_ext.control.allocator.jobs import LOOK_S, RunningJob, SpooledJob
from slurm_ext.control.allocator.measure import LEAST_S, MIXED, WorkerBounds, run_between
from slurm_ext.control.allocator.node import Machine
from slurm_ext.control.allocator.node_loop import pidfds
from slurm_ext.control.lending.node_loop import KIND
from slurm_ext.node.common.spool_layout import Spool
from slurm_ext.policy.allocator.operating_points import OperatingPoint
from tests.control.allocator.recorded_jobs import UID, allocator_of, recorded
from tests.control.allocator.test_control_hostile import summary


class Leaving:
    """A controlled job that takes some attempts to restore."""

    changed = True
    pids = ()

    def __init__(self, attempts: int) -> None:
        self.left = attempts
        self.share = SimpleNamespace(kept={}, keep_up=lambda: None)
        place = JobLocation(job_id=1, uid=0, node="n1")
        self.job = SimpleNamespace(place=place, run_dir="/none")

    def restore(self) -> bool:
        """True at the last attempt."""
        self.left -= 1
        return self.left <= 0


@pytest.mark.parametrize(("attempts", "waits"), [(1, 0), (2, 1), (40, 39), (41, 40)])
def test_an_undo_takes_up_to_40_attempts(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, attempts: int, waits: int
) -> None:
    """0.05 s apart; what is left after that is in the undo log, and counted all the same."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    allocator = allocator_of(spool)
    job: Any = Leaving(attempts)
    allocator.here = {"1.0": job}
    assert allocator.undo() == 1
    assert slept == [0.05] * waits
    assert (allocator.here, bool(allocator._leaving)) == ({}, attempts > 40)
    left = json.loads((Path(spool.root) / "control/undo.json").read_text()) if attempts > 40 else {}
    assert bool(left) is (attempts > 40)


def test_events_of_a_node(spool: Spool) -> None:
    """A job that comes, or a process that ends, begins a round."""
    allocator = allocator_of(spool)
    job: Any = SimpleNamespace(pids=(os.getpid(), (1 << 22) - 1))
    allocator.here = {"1.0": job}
    with allocator.events() as events:
        assert len(events.descriptors) == 1
        assert events.changed is not None
        assert not events.changed()
        recorded(spool)
        assert events.changed()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(events.descriptors[0])
    with pidfds([]) as descriptors:
        assert descriptors == []


def test_the_loops_settings() -> None:
    """For the runner."""
    expected = ("control", "control.mode", "control.interval_s", "control.")
    assert (KIND.name, KIND.mode, KIND.interval, KIND.prefix) == expected
    assert KIND.status_keys == ("mode", "reason", "jobs", "left_alone")
    assert (LOOK_S, LEAST_S, MIXED, MOST_RUNS) == (0.5, 0.5, 0.25, 8)


def test_a_job_that_is_refused_is_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its key and the reason; one that is gone is not."""
    errors: dict[str, Exception] = {
        "a": UntrustedJobDirError("a link"),
        "b": OSError(28, "No space left on device"),
        "c": JobGoneError("gone"),
    }

    def refusing(key: str) -> Any:
        def ask(_: object) -> None:
            raise errors[key]

        share = SimpleNamespace(held_cores=None, pinned=None, restore=lambda: True)
        return SimpleNamespace(
            units=1, share_units=1, share=share, bounds=(), ask=ask, restore=lambda: True
        )

    monkeypatch.setattr(actuator, "_alone_at_share", lambda *_: True)
    points = {key: OperatingPoint(units=1, workers=1, samples_per_s=1.0) for key in errors}
    machine = Machine(real_cores=4, slurm_cpus=4, grain_cores=1.0)
    refused = actuator.apply({key: refusing(key) for key in errors}, points, machine, 4)
    assert refused == {"a": "a link", "b": "[Errno 28] No space left on device"}
    assert caplog.messages == [f"{key} is left alone: {why}" for key, why in refused.items()]


@pytest.mark.parametrize(
    ("workers", "now", "movable", "written"),
    [(3, None, True, True), (3, 3, True, False), (3, None, False, False), (0, None, True, False)],
)
def test_workers_are_asked_for_once(
    spool: Spool, workers: int, now: int | None, movable: bool, written: bool
) -> None:
    """Where their number can change, and noted before; None and 0 ask for nothing."""
    folder = recorded(spool)
    notes: list[bool] = []
    place = JobLocation(job_id=7, uid=UID, node="n1")
    spooled = SpooledJob(key="7.0", run_dir=str(folder), place=place, cpus=2, gpus=0, why_not=None)
    job = ControlledJob(
        spooled,
        lambda: notes.append((folder / "workers").exists()),
        WindowPace(window_s=1.0, settle_s=0.0),
    )
    job.knob = WorkerBounds(now=2, least=1, most=4 if movable else 1, baseline=2)
    job.workers = now
    job.ask(workers)
    job.ask(None)
    assert (folder / "workers").exists() is written
    assert notes == ([False] if written else [])
    assert job.workers == (workers if written else now)
    assert job.bounds == (None, None, job.workers)
    job.restore()
    assert not (folder / "workers").exists()


def test_a_job_notes_what_its_training_says() -> None:
    """Processes, ranks, bounds of workers and its agreement; without any, one rank."""
    place = JobLocation(job_id=7, uid=UID, node="n1")
    spooled = SpooledJob(key="7.0", run_dir="/none", place=place, cpus=2, gpus=0, why_not=None)
    job = ControlledJob(spooled, lambda: None, WindowPace(window_s=1.0, settle_s=0.0))
    assert (job.share_units, job.ranks, job.pids, job.agreed) == (1, 1, (), False)
    bodies = (summary(), summary() | {"rank": 1})
    job.look(RunningJob(job=spooled, summaries=bodies, curve=None, agreed=True), 5)
    assert (job.ranks, job.pids, job.agreed) == (2, (os.getpid(),) * 2, True)
    assert job.knob == WorkerBounds(now=2, least=1, most=5, baseline=2)
    job.look(RunningJob(job=spooled, summaries=(), curve=None), 5)
    assert (job.ranks, job.pids, job.agreed, job.knob.most) == (1, (), False, 5)


def test_a_run_of_half_a_second_is_long_enough() -> None:
    """A shorter one says too little."""
    for wall_s, long_enough in ((0.5, True), (0.49, False)):
        part = wall_s / 4.0
        body = summary(wall_s=wall_s, wait_s=2 * part, step_s=2 * part, main_cpu_s=0.0, samples=400)
        run = run_between([], [body], cpus=2, gpus=0, cores=None)
        assert (run is not None) is long_enough
