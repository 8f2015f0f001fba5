"""Actions of the elastic loop, word for word: what is planned, noted, applied and undone."""

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ext.control.elastic.elastic_loop import KIND, ElasticLoop
from slurm_ext.control.loops.planned_loop import DONE, PlannedAction
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm.in_memory import MemoryClient
from slurm_ext.slurm.records import ResizeRequest
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


def test_a_waiting_job_is_resized_in_these_words(tmp_path: Path) -> None:
    """What is done, why, and the sizes; applied, Slurm has the shape and the note its old size."""
    loop, client = loop_of(tmp_path, job(1, 4, tmp_path))
    (planned,) = loop.plan(NOW_S)
    why = "it may have 1 to 8 GPUs: 1 now ends all jobs sooner"
    assert words(planned) == ("1", 1, "4->1 GPUs", why, {"gpus": 4}, {"gpus": 1})
    assert kept(tmp_path) == {}
    assert loop.apply(planned) == DONE
    shape = ResizeRequest(nodes=1, gpus_per_node=1, tasks=1, cpus_per_task=2)
    assert client.asked == [("resize", 1, shape)]
    size = {"gpus": 4, "nodes": 1, "tasks": 4, "cpus_per_task": 2}
    assert kept(tmp_path) == {"asked": {"1": size}, "wanted": {}, "changed_s": {"1": NOW_S}}


def test_a_running_job_is_requeued_then_started_in_these_words(tmp_path: Path) -> None:
    """Its note is written before the requeue, and cleared of its wish when it may start."""
    loop, client = loop_of(tmp_path, running(1, 2, tmp_path))
    (planned,) = loop.plan(NOW_S)
    more = "by what it measured, more GPUs end all elastic jobs sooner, its restart counted"
    assert words(planned) == ("1", 1, "requeue 2->8 GPUs", more, {"gpus": 2}, {"gpus": 8})
    assert loop.apply(planned) == DONE
    assert client.asked == [("requeue", 1, None)]
    size = {"gpus": 2, "nodes": 1, "tasks": 2, "cpus_per_task": 2}
    expected = {"asked": {"1": size}, "wanted": {"1": 8}, "changed_s": {"1": NOW_S}}
    assert kept(tmp_path) == expected
    change(client, 1, reason="BeginTime")
    (planned,) = loop.plan(NOW_S + 5)
    why = "its checkpoint is written: it goes on at its new size"
    assert words(planned) == ("1", 1, "2->8 GPUs, start", why, {"gpus": 2}, {"gpus": 8})
    assert loop.apply(planned) == DONE
    shape = ResizeRequest(nodes=2, gpus_per_node=4, tasks=8, cpus_per_task=2)
    assert client.asked[1:] == [("resize", 1, shape), ("delay", (1,), 0)]
    expected = {"asked": {"1": size}, "wanted": {}, "changed_s": {"1": NOW_S + 5}}
    assert kept(tmp_path) == expected


def test_a_job_that_shrinks_is_said_to_get_fewer(tmp_path: Path) -> None:
    """It makes room for another, and goes first: what grows needs its GPUs."""
    large = running(1, 8, tmp_path, steps=(1, 2, 4, 8))
    jobs = (running(3, 1, tmp_path, "1-2"), large, job(2, 4, tmp_path))
    loop, _ = loop_of(tmp_path, *jobs, nodes=3)
    planned = loop.plan(NOW_S)
    changes = [action.after["gpus"] - action.before["gpus"] for action in planned]
    assert changes == sorted(changes)
    assert len(changes) > 1
    fewer = "by what it measured, fewer GPUs end all elastic jobs sooner, its restart counted"
    assert {action.why for action in planned if action.subject == "1"} <= {fewer}


def test_a_requeue_that_slurm_refuses_stays_noted(tmp_path: Path) -> None:
    """The note says more than was done, never less."""
    loop, client = loop_of(tmp_path, running(1, 2, tmp_path))
    (planned,) = loop.plan(NOW_S)

    class Refuses(MemoryClient):
        def requeue(self, job_id: int, *, held: bool = False) -> None:
            raise SlurmError("requeue", 1, f"no {job_id} {held}")

    refusing = Refuses(known_jobs=client.known_jobs, known_nodes=client.known_nodes)
    loop = ElasticLoop(
        Settings(values={"paths.state_dir": str(tmp_path)}), refusing, state_of(tmp_path)
    )
    with pytest.raises(SlurmError, match="no 1 False"):
        loop.apply(planned)
    assert kept(tmp_path)["wanted"] == {"1": 8}


def test_a_job_of_its_users_size_is_not_noted(tmp_path: Path) -> None:
    """Where a change leads back to what the user asked there is nothing left to put back."""
    loop, _ = loop_of(tmp_path, job(1, 4, tmp_path))
    (planned,) = loop.plan(NOW_S)
    loop.apply(planned)
    (undone,) = loop.undo(NOW_S + 1)
    why = "sizes are its user's again"
    assert words(undone) == ("1", 1, "1->4 GPUs", why, {"gpus": 1}, {"gpus": 4})
    assert loop.apply(undone) == DONE
    assert kept(tmp_path) == {"asked": {}, "wanted": {}, "changed_s": {"1": NOW_S + 1}}
    assert loop.undo(NOW_S + 2) == ()


def test_an_undone_start_asks_for_no_other_size(tmp_path: Path) -> None:
    """A requeued job that has its user's size only starts; one that runs goes on as it is."""
    loop, client = loop_of(tmp_path, running(1, 2, tmp_path))
    (planned,) = loop.plan(NOW_S)
    loop.apply(planned)
    (undone,) = loop.undo(NOW_S)
    assert undone.done == "2->2 GPUs, start"
    assert loop.apply(undone) == DONE
    assert client.asked == [("requeue", 1, None), ("delay", (1,), 0)]
    assert kept(tmp_path) == {"asked": {}, "wanted": {}, "changed_s": {"1": NOW_S}}


def test_a_job_that_runs_again_is_not_started_by_a_later_undo(tmp_path: Path) -> None:
    """It goes on as it is, and a requeue by others is Slurm's own."""
    loop, client = loop_of(tmp_path, running(1, 2, tmp_path))
    (planned,) = loop.plan(NOW_S)
    loop.apply(planned)
    change(client, 1, state="RUNNING", reason="None")
    assert list(loop.undo(NOW_S)) == []
    assert loop.left() == ""
    change(client, 1, state="PENDING", reason="BeginTime")
    assert list(loop.undo(NOW_S)) == []


@pytest.mark.parametrize(("after_s", "actions"), [(599.0, 0), (599.999, 0), (600.0, 1), (601.0, 1)])
def test_a_job_rests_between_two_changes(tmp_path: Path, after_s: float, actions: int) -> None:
    """elastic.least_s, 600 s by default, to the second."""
    loop, client = loop_of(tmp_path, job(1, 4, tmp_path))
    (planned,) = loop.plan(NOW_S)
    loop.apply(planned)
    change(client, 1, gpus=2)
    assert len(loop.plan(NOW_S + after_s)) == actions


def test_a_job_that_ended_is_forgotten(tmp_path: Path) -> None:
    """All three notes of it, at the next look; those of others stay."""
    loop, client = loop_of(tmp_path, running(1, 1, tmp_path), running(2, 1, tmp_path), nodes=4)
    for planned in loop.plan(NOW_S):
        loop.apply(planned)
    assert [sorted(notes) for notes in kept(tmp_path).values()] == [["1", "2"]] * 3
    change(client, 1, state="COMPLETED")
    change(client, 2, reason="BeginTime")
    for planned in loop.plan(NOW_S + 1):
        loop.apply(planned)
    assert [sorted(notes) for notes in kept(tmp_path).values()] == [["2"], [], ["2"]]


def test_gpus_for_a_job_in_between_are_not_divided(tmp_path: Path) -> None:
    """What a requeued job is to get is nobody else's until it starts."""
    loop, client = loop_of(tmp_path, running(1, 2, tmp_path), nodes=2)
    (planned,) = loop.plan(NOW_S)
    loop.apply(planned)
    change(client, 1, reason="BeginTime")
    client.known_jobs += (job(2, 4, tmp_path, "1-4"),)
    assert [action.done for action in loop.plan(NOW_S + 1)] == ["2->8 GPUs, start"]
    (pool,) = loop.status()["pools"]
    assert [(row["job"], row["wanted"]) for row in pool["jobs"]] == [(1, None), (2, None)]


def test_another_loops_action_is_a_mistake(tmp_path: Path) -> None:
    """It is named, and nothing is changed."""
    loop, client = loop_of(tmp_path, job(1, 4, tmp_path))
    other = PlannedAction(subject="1", done="x", why="y")
    with pytest.raises(TypeError, match=r"^expected a Resize: PlannedAction\(subject='1'"):
        loop.apply(other)
    assert client.asked == []


def test_the_status_before_and_after_the_first_look(tmp_path: Path) -> None:
    """Nothing, then pools, and jobs left alone for a bad report or a bad request."""
    loop, _ = loop_of(tmp_path, running(1, 2, tmp_path), job(2, 1, tmp_path, "8"))
    assert loop.status() == {}
    (tmp_path / "dlqueue-elastic-1.json").write_text("{}")
    loop.plan(NOW_S)
    rows = [{"job": 1, "gpus": 2, "runs": True, "least": 1, "most": 8, "wanted": 2}]
    assert loop.status() == {
        "pools": [{"partition": "p", "gpus": 7, "jobs": rows}],
        "left_alone": {
            "1": "dlqueue-elastic-1.json: KeyError('v')",
            "2": "DLQUEUE_ELASTIC is not MIN-MAX (two numbers of GPUs, such as 1-8)",
        },
    }


def test_the_loops_settings() -> None:
    """Its mode and interval, for the runner."""
    expected = ("elastic", "elastic.mode", "elastic.interval_s", "elastic.")
    assert (KIND.name, KIND.mode, KIND.interval, KIND.prefix) == expected


@pytest.mark.parametrize("optimiser", ["dp", "evolution"])
def test_an_uneven_size_is_for_the_job_that_has_it(tmp_path: Path, optimiser: str) -> None:
    """5 GPUs are not alike on nodes of 4: another job would be given fewer than its least."""
    jobs = (job(1, 8, tmp_path, "5-8"), job(2, 5, tmp_path, "5-8"))
    loop, client = loop_of(tmp_path, *jobs, nodes=4, optimiser=optimiser)
    for planned in loop.plan(NOW_S):
        loop.apply(planned)
    assert all((info.gpus or 0) >= 5 for info in client.known_jobs)
    (pool,) = loop.status()["pools"]
    assert {row["job"]: row["wanted"] for row in pool["jobs"]}[2] == 5
    assert loop.plan(NOW_S + 600) == []


def test_an_uneven_size_is_put_back_as_its_user_wrote_it(tmp_path: Path) -> None:
    """5 GPUs of one large node, in a partition whose smaller nodes have 4."""
    loop, client = loop_of(tmp_path, job(1, 5, tmp_path))
    (planned,) = loop.plan(NOW_S)
    loop.apply(planned)
    assert client.known_jobs[0].gpus == 1
    (undone,) = loop.undo(NOW_S)
    loop.apply(undone)
    assert (client.known_jobs[0].gpus, client.known_jobs[0].node_count) == (5, 1)
    assert loop.undo(NOW_S) == ()


@pytest.mark.parametrize("bounds", ["3-3", "3-8", "6-6"])
def test_evolution_divides_where_a_job_can_have_no_usual_size(tmp_path: Path, bounds: str) -> None:
    """It knows sizes such as 3, or 6 on two nodes, and starts from them where no other is able."""
    jobs = (job(1, 8, tmp_path, bounds), job(2, 1, tmp_path, "1-1", comment=""))
    loop, client = loop_of(tmp_path, *jobs, optimiser="evolution")
    (planned,) = loop.plan(NOW_S)
    loop.apply(planned)
    assert client.known_jobs[0].gpus == int(bounds[0])


def test_nobody_is_requeued_for_gpus_that_another_partition_holds(tmp_path: Path) -> None:
    """The job would wait until that job ends, and had stopped for nothing."""
    rigid = job(9, 4, tmp_path, comment="", partition="q", state="RUNNING", nodes="n1")
    ours = replace(running(1, 2, tmp_path), nodes="n0")
    loop, client = loop_of(tmp_path, ours, rigid)
    shared = (replace(node, partitions=("p", "q")) for node in client.known_nodes)
    client.known_nodes = tuple(shared)
    assert [action.done for action in loop.plan(NOW_S)] == ["requeue 2->4 GPUs"]
