"""A job keeps its decision through holds and requeues; a number that comes again starts anew."""

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ext.core import elastic_requests
from slurm_ext.history.ingest.decisions import decision
from slurm_ext.history.views.queries import job as known_job
from slurm_ext.slurm import JobInfo
from tests.advisor.history_writer.a_cluster import ENDED, JOB, NOW_S, World, node_says
from tests.advisor.history_writer.test_jobs_told import HALF, script, sharers

DAY_S = 86400
MONTH_AGO_S = -30 * DAY_S


def submitted_at(job: JobInfo, later_s: int) -> JobInfo:
    """The job as if it was submitted then, and started a second later."""
    at_s = int(NOW_S) + later_s
    return replace(job, submit_time_s=at_s, start_time_s=at_s + 1)


def requeued(job: JobInfo, restarts: int, later_s: int) -> JobInfo:
    """A later start of the job: its submit time is that of the requeue."""
    return replace(submitted_at(job, later_s), restarts=restarts, nodes=f"n{restarts + 1}")


def tie(world: World, token: str, job: JobInfo, later_s: float = 0.0, **said: str | int) -> None:
    """A proposal is made, and tied five seconds later."""
    elastic, number = said.get("elastic"), said.get("script")
    world.propose(
        token,
        decided_s=NOW_S + later_s - 0.5,
        elastic=None if elastic is None else str(elastic),
        script=None if number is None else int(number),
    )
    world.look(job, later_s=later_s + 5)
    assert world.state(token) == ("claimed", 7)


def recorded(world: World) -> list[tuple[int, str | None]]:
    """Restart and decision of each run of the job."""
    found = known_job(world.history, 7)
    return [(run["restart"], run["decision"]) for run in found["runs"]] if found else []


def test_a_number_that_came_again_is_tied_to_its_own_decision(world: World) -> None:
    """The old job's decision stays its own; the new job's is neither dropped nor mistaken."""
    tie(world, "d1-old", submitted_at(JOB, MONTH_AGO_S), MONTH_AGO_S)
    tie(world, "d1-new", JOB)
    world.look(JOB, later_s=12)
    assert world.state("d1-old") == world.state("d1-new") == ("claimed", 7)
    world.look(ENDED, later_s=70)
    assert recorded(world) == [(0, "d1-new")]
    newest = decision(world.history, job_id=7)
    assert newest is not None
    assert newest["token"] == "d1-new"


def test_a_job_of_a_reused_number_without_a_decision_has_none(world: World) -> None:
    """A job that Slurm did not ask about gets no decision of before."""
    tie(world, "d1-old", submitted_at(JOB, MONTH_AGO_S), MONTH_AGO_S)
    world.look(ENDED, later_s=70)
    assert recorded(world) == [(0, None)]


def test_partners_are_told_the_script_of_the_new_job(tmp_path: Path) -> None:
    """A job that shares its GPU under a reused number stands there as its own script."""
    world = World(tmp_path, **{"sharing.mode": "shadow"})
    tie(world, "d1-old", submitted_at(HALF, MONTH_AGO_S), MONTH_AGO_S, script=1)
    world.look(HALF, later_s=1)
    assert sharers(tmp_path) == {"7": {None}}
    tie(world, "d1-new", HALF, script=2)
    assert sharers(tmp_path) == {"7": {script(2)}}


@pytest.mark.parametrize("proposed", [False, True])
def test_an_old_jobs_word_lets_no_other_job_change_its_size(tmp_path: Path, proposed: bool) -> None:
    """Whether the new job of that number and name has a decision or not."""
    world = World(tmp_path, **{"elastic.mode": "shadow"})
    tie(world, "d1-old", submitted_at(JOB, MONTH_AGO_S), MONTH_AGO_S, elastic="1-8")
    assert elastic_requests.read(tmp_path) == {7: "1-8"}
    if proposed:
        tie(world, "d1-new", JOB)
    world.look(JOB, later_s=6)
    assert elastic_requests.read(tmp_path) == {}


@pytest.mark.parametrize("times", [1, 2])
def test_a_requeued_job_keeps_its_decision(tmp_path: Path, times: int) -> None:
    """Each of its starts has it, days later too, and its word on its size stands."""
    world = World(tmp_path, **{"elastic.mode": "shadow"})
    tie(world, "d1-own", JOB, elastic="1-8")
    for number in range(1, times + 1):
        again = requeued(JOB, number, number * DAY_S)
        world.look(again, later_s=number * DAY_S + 2)
        world.look(again, later_s=number * DAY_S + 30)
        assert elastic_requests.read(tmp_path) == {7: "1-8"}
    end_s = int(NOW_S) + times * DAY_S + 60
    world.look(replace(again, state="COMPLETED", end_time_s=end_s), later_s=times * DAY_S + 90)
    assert recorded(world) == [(number, "d1-own") for number in range(times + 1)]
    assert world.state("d1-own") == ("claimed", 7)


def test_a_requeue_ties_no_decision_of_its_moment(world: World) -> None:
    """What its user submits in the second of the requeue is another job."""
    again = requeued(JOB, 1, DAY_S)
    world.propose("d1-other", decided_s=NOW_S + DAY_S - 0.5)
    world.look(again, later_s=DAY_S + 5)
    assert world.state("d1-other") == ("proposed", None)
    other = replace(submitted_at(JOB, DAY_S), job_id=8)
    world.look(again, other, later_s=DAY_S + 6)
    assert world.state("d1-other") == ("claimed", 8)


def test_a_job_requeued_before_it_was_tied_is_waited_for(world: World) -> None:
    """Its proposal stays, old decisions of its number or not, until the job's record names it."""
    tie(world, "d1-old", submitted_at(JOB, MONTH_AGO_S), MONTH_AGO_S)
    world.propose("d1-a", "d1-b")
    world.look(JOB, later_s=2)
    again = requeued(JOB, 1, 8)
    world.look(again, later_s=30)
    assert world.state("d1-a") == world.state("d1-b") == ("proposed", None)
    node_says(world, "REQUEUED", "epilog", token="d1-b")
    world.look(again, later_s=31)
    assert world.state("d1-b") == ("claimed", 7)
    world.look(later_s=32)  # nobody is left who could name the other
    assert world.state("d1-a") is None


def test_a_held_job_that_starts_days_later_keeps_its_decision(world: World) -> None:
    """Its submit time stands while it waits, whatever its user calls it meanwhile."""
    waits = replace(JOB, state="PENDING", nodes="", start_time_s=None, priority=0)
    tie(world, "d1-own", waits)
    world.look(replace(waits, name="renamed"), later_s=3 * DAY_S)
    start_s = int(NOW_S) + 4 * DAY_S
    ran = replace(ENDED, name="renamed", start_time_s=start_s, end_time_s=start_s + 60)
    world.look(ran, later_s=4 * DAY_S + 90)
    assert recorded(world) == [(0, "d1-own")]
    assert world.state("d1-own") == ("claimed", 7)
