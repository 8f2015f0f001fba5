"""Jobs of a node as the spool has them: what the prolog recorded, who lends, undo logs."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.control.allocator import undo_log
from slurm_ext.control.allocator.cgroup.job_location import (
    JobGoneError,
    JobLocation,
)
from slurm_ext.control.allocator.jobs import SpooledJobs
from slurm_ext.control.allocator.undo_log import allocator_state, keep_changes, undo_left
from slurm_ext.node.common import state as node_state
from slurm_ext.node.common.spool_layout import Spool
from tests.control.allocator.recorded_jobs import UID, recorded
from tests.control.allocator.test_control_hostile import summary

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
