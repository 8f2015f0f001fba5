"""The elastic loop gives a job the size back that its user wrote."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.elastic.elastic_loop import ElasticLoop
from slurm_ext.control.loops.planned_loop import DONE
from slurm_ext.core.settings.document import Settings
from tests.control.elastic.elastic_loops import (
    NOW_S,
    change,
    job,
    kept,
    loop_of,
    running,
    state_of,
    words,
)


@pytest.mark.parametrize("reason", ["QOSMaxGRESPerUser", "ReqNodeNotAvail", "JobHeldUser"])
def test_sizes_are_put_back_whatever_their_jobs_wait_for(tmp_path: Path, reason: str) -> None:
    """A job that could not start now has its user's size again, with its tasks."""
    loop, client = loop_of(tmp_path, job(1, 4, tmp_path))
    (planned,) = loop.plan(NOW_S)
    loop.apply(planned)
    change(client, 1, reason=reason, priority=0)
    (undone,) = loop.undo(NOW_S + 1)
    assert undone.why == "sizes are its user's again"
    loop.apply(undone)
    assert (client.known_jobs[0].gpus, client.known_jobs[0].tasks) == (4, 4)
    assert loop.undo(NOW_S + 2) == ()


@pytest.mark.parametrize("narrowed", [True, False])
def test_sizes_are_put_back_where_there_is_no_pool_any_more(tmp_path: Path, narrowed: bool) -> None:
    """All nodes are down, or settings leave the job alone by now: its size was ours."""
    loop, client = loop_of(tmp_path, job(1, 4, tmp_path))
    (planned,) = loop.plan(NOW_S)
    loop.apply(planned)
    if not narrowed:
        client.known_nodes = tuple(replace(node, state="DOWN") for node in client.known_nodes)
    values = {"paths.state_dir": str(tmp_path), "elastic.users": ["bob"] if narrowed else ["*"]}
    loop = ElasticLoop(Settings(values=values), client, state_of(tmp_path))
    (undone,) = loop.undo(NOW_S + 1)
    loop.apply(undone)
    assert client.known_jobs[0].gpus == 4
    assert kept(tmp_path)["asked"] == {}


def test_a_requeued_job_that_is_left_alone_since_has_its_users_size(tmp_path: Path) -> None:
    """Slurm starts it by itself; the size that was to come is not planned any more."""
    loop, client = loop_of(tmp_path, running(1, 2, tmp_path))
    client.known_config = {"SLURM_VERSION": "22.05.8"}
    (planned,) = loop.plan(NOW_S)
    loop.apply(planned)
    change(client, 1, reason="BeginTime")
    (resized,) = loop.plan(NOW_S + 1)
    loop.apply(resized)
    assert client.known_jobs[0].gpus == 8
    change(client, 1, reason="JobHeldUser", priority=0)
    (undone,) = loop.undo(NOW_S + 2)
    loop.apply(undone)
    assert client.known_jobs[0].gpus == 2
    assert (kept(tmp_path)["asked"], kept(tmp_path)["wanted"]) == ({}, {"1": 2})
    assert not loop.undo(NOW_S + 3)


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({"comment": "dlqueue=off"}, {}),
        ({"comment": ""}, {}),
        ({"comment": "DLQUEUE_ELASTIC=8"}, {}),
        ({"reservation": "exam"}, {}),
        ({"comment": "", "priority": 0, "reason": "JobHeldUser"}, {}),
        ({}, {"partitions": ["q"]}),
        ({}, {"users": ["bob"]}),
    ],
)
def test_a_job_that_is_left_alone_since_has_its_users_size(
    tmp_path: Path, changes: dict[str, Any], settings: dict[str, Any]
) -> None:
    """Its user took the word back, or the site narrowed the settings, while it waited."""
    loop, client = loop_of(tmp_path, job(1, 4, tmp_path))
    (planned,) = loop.plan(NOW_S)
    loop.apply(planned)
    change(client, 1, **changes)
    loop, client = loop_of(tmp_path, *client.known_jobs, **settings)
    (back,) = loop.plan(NOW_S + 1)
    assert words(back)[:4] == ("1", 1, "1->4 GPUs", "it is left alone since")
    assert loop.apply(back) == DONE
    assert (client.known_jobs[0].gpus, client.known_jobs[0].tasks) == (4, 4)
    assert kept(tmp_path)["asked"] == {}
    assert loop.plan(NOW_S + 2) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"priority": 0, "reason": "JobHeldUser"},
        {"reason": "Dependency", "dependency": "afterok:9"},
        {"state": "RUNNING", "reason": "None", "comment": "dlqueue=off"},
        {"comment": "", "gres": "gres:gpu:a100:1"},
        {"comment": "", "gpus": None},
    ],
)
def test_a_job_that_only_waits_keeps_the_size_of_ours(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """So does one that runs, and one whose GPUs its user wrote anew."""
    loop, client = loop_of(tmp_path, job(1, 4, tmp_path))
    (planned,) = loop.plan(NOW_S)
    loop.apply(planned)
    change(client, 1, **changes)
    assert loop.plan(NOW_S + 1) == []


def test_environments_that_cannot_be_read_give_no_size_back(tmp_path: Path) -> None:
    """A job that opted in there would look as if it had not."""
    words_there = tmp_path / "elastic.json"
    words_there.write_text('{"v": 1, "jobs": {"1": "1-8"}}')
    loop, _ = loop_of(tmp_path, job(1, 4, tmp_path, comment=""))
    (planned,) = loop.plan(NOW_S)
    loop.apply(planned)
    words_there.write_text("{")
    assert loop.plan(NOW_S + 1) == []
    words_there.write_text('{"v": 1, "jobs": {}}')
    (back,) = loop.plan(NOW_S + 2)
    assert back.done == "1->4 GPUs"
