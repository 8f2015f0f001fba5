"""Rounds of the node's allocator: status, log, undo log and jobs of the spool, word for word."""

import json
import logging
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.control.allocator import actuator, allocator_round, undo_log
from slurm_ext.control.allocator.actuator import SAME_READS
from slurm_ext.control.allocator.allocator_round import KIND, Allocator, _pidfds, make
from slurm_ext.control.allocator.cgroup.job_location import (
    JobGoneError,
    JobLocation,
    UntrustedJobDirError,
)
from slurm_ext.control.allocator.controlled_job import MOST_RUNS, ControlledJob, WindowPace
from slurm_ext.control.allocator.jobs import LOOK_S, RunningJob, SpooledJob, SpooledJobs
from slurm_ext.control.allocator.measure import LEAST_S, MIXED, WorkerBounds, run_between
from slurm_ext.control.allocator.node import Machine
from slurm_ext.control.allocator.undo_log import allocator_state, keep_changes, undo_left
from slurm_ext.core.settings.document import Settings
from slurm_ext.node.common import state as node_state
from slurm_ext.node.common.spool_layout import Spool, make_run_dir
from slurm_ext.policy.allocator.operating_points import OperatingPoint
from slurm_ext.slurm.in_memory import MemoryClient
from tests.control.allocator.test_control_hostile import summary

UID = os.geteuid()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """A node's spool."""
    spool = Spool(str(tmp_path / "spool"))
    spool.prepare()
    return spool


def recorded(spool: Spool, key: str = "7.0", **facts: Any) -> Path:
    """A job that the prolog recorded; its run folder."""
    identity = {"job_id": int(key.partition(".")[0]), "uid": UID, "node": "n1"}
    allocation = {"cpus": 2, "num_nodes": 1, "gpus": []}
    body = {"identity": identity, "allocation": allocation, "boot_id": node_state.boot_id()}
    node_state.save(spool, key, "json", body | facts, durable=False)
    make_run_dir(spool, key, UID)
    return Path(spool.run_dir(key))


def settings_of(spool: Spool, mode: str = "act", **more: Any) -> Settings:
    """Settings of the allocator."""
    values = {f"control.{key}": value for key, value in more.items()}
    return Settings(values={"node.spool_dir": spool.root, "control.mode": mode, **values})


def allocator_of(spool: Spool, mode: str = "act", **more: Any) -> Allocator:
    """The allocator of the spool's node."""
    state = allocator_state(spool)
    os.close(state.lock())
    return make(settings_of(spool, mode, **more), MemoryClient(), state)


SEVERAL, UNKNOWN = "it runs on several nodes", "its CPUs are not known"


@pytest.mark.parametrize(
    ("allocation", "cpus", "gpus", "why_not"),
    [
        ({"cpus": 2, "num_nodes": 1, "gpus": ["0", "1"]}, 2, 2, None),
        ({"cpus": 1}, 1, 0, None),
        ({"cpus": 2, "num_nodes": None, "gpus": None}, 2, 0, None),
        ({"cpus": 2, "num_nodes": 2}, 2, 0, SEVERAL),
        ({"cpus": 2, "num_nodes": 0}, 2, 0, SEVERAL),
        ({"cpus": 0}, 0, 0, UNKNOWN),
        ({"cpus": None}, 0, 0, UNKNOWN),
        ({"cpus": True}, 1, 0, UNKNOWN),
        (None, 0, 0, UNKNOWN),
    ],
)
def test_a_job_as_the_prolog_recorded_it(
    spool: Spool, allocation: Any, cpus: int, gpus: int, why_not: str | None
) -> None:
    """Its CPUs and GPUs on this node, and why it is never touched."""
    recorded(spool, allocation=allocation)
    (running,) = SpooledJobs(spool).look()
    job = running.job
    assert (job.key, job.cpus, job.gpus, job.why_not) == ("7.0", cpus, gpus, why_not)
    assert (job.place.job_id, job.place.uid, job.place.node) == (7, UID, "n1")
    assert job.run_dir == spool.run_dir("7.0")


@pytest.mark.parametrize(
    ("lends", "note", "agreed"),
    [
        (True, None, True),
        (False, None, False),
        (1, None, False),
        (False, "1", True),
        (False, "0", False),
        (False, "11", False),
        (False, "", False),
    ],
)
def test_a_job_that_agreed_to_lend(
    spool: Spool, lends: Any, note: str | None, agreed: bool
) -> None:
    """By its comment, as the prolog noted it, or by its own file of one character."""
    folder = recorded(spool, lends=lends)
    if note is not None:
        (folder / "lend").write_text(note)
    (running,) = SpooledJobs(spool).look()
    assert running.agreed is agreed


def test_jobs_of_another_boot_and_ended_ones_are_none(spool: Spool) -> None:
    """The others come in the order of their keys; a run that finished or died is not live."""
    recorded(spool, "9.0")
    recorded(spool, "8.0", boot_id="another")
    recorded(spool, "6.0")
    node_state.save(spool, "6.0", "end", {}, durable=False)
    folder = recorded(spool, "7.0")
    live, finished = summary(), summary() | {"finished": True}
    for number, body in enumerate((live, finished, summary() | {"pid": (1 << 22) - 1})):
        (folder / f"summary-{number}.json").write_text(json.dumps(body))
    jobs = SpooledJobs(spool)
    assert jobs.keys() == {"7.0", "8.0", "9.0"}
    running = jobs.look()
    assert [one.job.key for one in running] == ["7.0", "9.0"]
    assert [len(one.summaries) for one in running] == [1, 0]
    assert jobs.look()[0].job is running[0].job


def test_the_undo_log_of_a_job(spool: Spool) -> None:
    """Where it is and what was changed; jobs that are as they were are not in it."""
    state = allocator_state(spool)
    os.close(state.lock())
    place = JobLocation(job_id=7, uid=UID, node="n1")
    job = SimpleNamespace(place=place, run_dir="/r")
    jobs: Any = {
        "7.0": SimpleNamespace(changed=True, job=job, share=SimpleNamespace(kept={"quota": {}})),
        "8.0": SimpleNamespace(changed=False),
    }
    keep_changes(state, jobs)
    entry = {
        "place": {"job_id": 7, "uid": UID, "node": "n1"},
        "run_dir": "/r",
        "share": {"quota": {}},
    }
    expected = {"boot_id": node_state.boot_id(), "jobs": {"7.0": entry}}
    assert state.load(dict) == expected
    assert (state.path, state.command) == (Path(spool.root, "control"), "dlqueue control")


def test_what_another_process_left_is_undone(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Share and gate of each job; one that is gone, or hostile, stops no other."""
    undone: list[tuple[int, Any]] = []

    def undo(place: JobLocation, kept: Any) -> None:
        undone.append((place.job_id, kept))
        if place.job_id == 1:
            raise JobGoneError("gone")
        if place.job_id == 2:
            raise OSError(5, "no")

    monkeypatch.setattr(undo_log, "undo", undo)
    folders = {number: recorded(spool, f"{number}.0") for number in (1, 2, 3)}
    for folder in folders.values():
        (folder / "workers").write_text("3")
    entries = {
        f"{number}.0": {
            "place": {"job_id": number, "uid": UID + (number == 2), "node": "n1"},
            "run_dir": str(folder),
            "share": {"quota": number},
        }
        for number, folder in folders.items()
    }
    state = allocator_state(spool)
    os.close(state.lock())
    state.keep({"boot_id": node_state.boot_id(), "jobs": entries})
    assert undo_left(state) == 3
    assert undone == [(number, {"quota": number}) for number in (1, 2, 3)]
    assert [(folder / "workers").exists() for folder in folders.values()] == [False, True, False]
    assert undo_left(state) == 0
    state.keep({"boot_id": "another", "jobs": entries})
    assert undo_left(state) == 0


def test_the_status_of_a_node_without_jobs(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field of it; nothing is decided."""
    monkeypatch.setattr(time, "time", lambda: 12.34567)
    allocator = allocator_of(spool, grain_cores=0.5)
    assert allocator.round() is None
    assert allocator_state(spool).read_status() == {
        "t_s": 12.346,
        "pid": os.getpid(),
        "mode": "act",
        "acts": True,
        "grain_cores": 0.5,
        "change": False,
        "reason": "no job here can be moved",
        "jobs": [],
        "left_alone": {},
    }


def test_jobs_are_left_alone_with_their_reasons(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without a training, one with odd summaries, one that no quota can be set for."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    recorded(spool, "1.0")
    folder = recorded(spool, "2.0")
    (folder / "summary-0.json").write_text(json.dumps(summary()))
    allocator = allocator_of(spool, "shadow", grain_cores=1.0)
    allocator._refused["2.0"] = "a link"
    allocator.round()
    expected = {"1.0": "no training that the probe knows runs in it", "2.0": "a link"}
    assert allocator.left_alone == expected
    allocator._refused.clear()

    def odd(*_: object) -> None:
        raise TypeError

    monkeypatch.setattr(ControlledJob, "look", odd)
    allocator.round()
    assert allocator.left_alone["2.0"] == "its summaries are not what the probe writes"
    allocator = allocator_of(spool, "shadow", grain_cores=0.5)
    monkeypatch.setattr(
        allocator_round,
        "ControlledJob",
        lambda *_, **__: SimpleNamespace(share=SimpleNamespace(mechanisms=("affinity",))),
    )
    allocator.round()
    message = "no CPU quota can be set here, and control.grain_cores needs one"
    assert allocator.left_alone["2.0"] == message


@pytest.mark.parametrize(
    ("lends", "grain", "expected"),
    [(True, 0.5, True), (True, 1.0, False), (False, 0.5, False)],
)
def test_cpus_are_lent_by_weight(spool: Spool, lends: bool, grain: float, expected: bool) -> None:
    """Only parts of cores are."""
    assert allocator_of(spool, lends_unused=lends, grain_cores=grain)._lends is expected


@pytest.mark.parametrize(("mode", "prefix"), [("act", ""), ("shadow", "would: ")])
def test_a_decision_is_logged_once(
    spool: Spool, caplog: pytest.LogCaptureFixture, mode: str, prefix: str
) -> None:
    """By job: units and workers; again where it differs."""
    caplog.set_level(logging.INFO, "dlqueue.control")
    allocator = allocator_of(spool, mode)

    def decision(units: int) -> Any:
        points = {
            "b": OperatingPoint(units=units, workers=4, samples_per_s=1.0),
            "a": OperatingPoint(units=2, workers=None, samples_per_s=1.0),
        }
        allocation = SimpleNamespace(points=points, reason={})
        return SimpleNamespace(reason="news", gain=0.5, allocation=allocation, change=True)

    for units in (1, 1, 3):
        allocator._record(decision(units), 8)
    assert caplog.messages == [
        f"{prefix}news: {{'a': (2, None), 'b': ({units}, 4)}}" for units in (1, 3)
    ]
    lines = (Path(spool.root) / "control/decisions.jsonl").read_text().splitlines()
    assert [(row["acted"], row["units"]) for row in map(json.loads, lines)] == [
        (mode == "act", 8)
    ] * 2


def test_limits_of_reads_are_logged(
    spool: Spool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In MiB/s, in log and decisions; only in act, with a disk and a rate."""
    caplog.set_level(logging.INFO, "dlqueue.control")
    limits: dict[str, float] = {"a": 1.5 * 2**20, "b": 0.0}
    monkeypatch.setattr(allocator_round, "limit_reads", lambda *_: limits)
    for mode, mib, device in (("shadow", 9.0, "8:0"), ("act", 0.0, "8:0"), ("act", 9.0, None)):
        allocator = allocator_of(spool, mode, storage_mib_per_s=mib)
        allocator._device = device
        allocator._limit_reads({})
    assert caplog.messages == []
    allocator._device = "8:0"
    allocator._limit_reads({})
    limits.clear()
    allocator._limit_reads({})
    assert caplog.messages == ["reads, MiB/s, 0 for no limit: {'a': 1.5, 'b': 0.0}"]
    (line,) = (Path(spool.root) / "control/decisions.jsonl").read_text().splitlines()
    row = json.loads(line)
    assert (row["acted"], row["read_mib_per_s"]) == (True, {"a": 1.5, "b": 0.0})
    assert SAME_READS == 0.05


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
    allocator.controlled = {"1.0": job}
    assert allocator.undo() == 1
    assert slept == [0.05] * waits
    assert (allocator.controlled, bool(allocator._leaving)) == ({}, attempts > 40)
    left = json.loads((Path(spool.root) / "control/undo.json").read_text()) if attempts > 40 else {}
    assert bool(left) is (attempts > 40)


def test_events_of_a_node(spool: Spool) -> None:
    """A job that comes, or a process that ends, begins a round."""
    allocator = allocator_of(spool)
    job: Any = SimpleNamespace(pids=(os.getpid(), (1 << 22) - 1))
    allocator.controlled = {"1.0": job}
    with allocator.events() as events:
        assert len(events.descriptors) == 1
        assert events.changed is not None
        assert not events.changed()
        recorded(spool)
        assert events.changed()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(events.descriptors[0])
    with _pidfds([]) as descriptors:
        assert descriptors == []


def test_the_loops_settings() -> None:
    """For the runner."""
    expected = ("control", "control.mode", "control.interval_s", "control.")
    assert (KIND.name, KIND.mode, KIND.interval, KIND.prefix) == expected
    assert KIND.status_keys == ("mode", "reason", "grain_cores", "jobs", "left_alone")
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
