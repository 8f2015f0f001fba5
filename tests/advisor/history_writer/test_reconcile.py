"""Proposals of the ledger find the jobs that they became, with a cluster made of records."""

import json
from dataclasses import replace

import pytest

from slurm_ext.advisor.history_writer.slurm_record import put, record_of
from slurm_ext.slurm import JobInfo
from tests.advisor.history_writer.a_cluster import ENDED, JOB, NOW_S, World, node_says


def test_a_proposal_is_tied_to_the_one_job_it_can_mean(world: World) -> None:
    """Same user, same name, same moment: the job is found before it ever runs."""
    world.propose("d1-a")
    world.look(JOB, later_s=1)
    assert world.state("d1-a") == ("proposed", None)  # another proposal may still be on its way
    world.look(JOB, later_s=5)
    assert world.state("d1-a") == ("claimed", 7)


@pytest.mark.parametrize(
    "other",
    [
        replace(JOB, user_id=1001),
        replace(JOB, name="other.sh"),
        replace(JOB, submit_time_s=int(NOW_S) - 60),
        replace(JOB, submit_time_s=int(NOW_S) + 60),
        replace(JOB, array_job_id=7),
        replace(JOB, comment="a,dlqueue=off"),
    ],
)
def test_somebody_elses_job_ties_nothing(world: World, other: JobInfo) -> None:
    """Another user, name or moment, an array, or who opted out: not the job that was proposed."""
    world.propose("d1-a")
    world.look(other, later_s=5)
    assert world.state("d1-a") == ("proposed", None)
    world.look(other, later_s=30)
    assert world.state("d1-a") is None


def test_what_test_only_asked_leaves_no_orphan(world: World) -> None:
    """A proposal that no job can have come from is dropped, and not before it had its time."""
    world.propose("d1-a")
    world.look(later_s=2)
    assert world.state("d1-a") == ("proposed", None)
    world.look(later_s=30)
    assert world.state("d1-a") is None


def test_doubt_waits_for_the_jobs_own_record(world: World) -> None:
    """Two proposals and one job: neither is tied, neither is dropped while Slurm lists the job."""
    world.propose("d1-a", "d1-b")
    world.look(JOB, later_s=30)
    assert world.state("d1-a") == world.state("d1-b") == ("proposed", None)
    world.look(JOB, later_s=2 * 86400)
    assert world.state("d1-a") == world.state("d1-b") == ("proposed", None)
    world.look(later_s=2 * 86400 + 30)
    assert world.state("d1-a") is world.state("d1-b") is None


def test_jobs_alike_that_run_for_days_keep_their_decisions(world: World) -> None:
    """Two of a sweep were submitted at once: each record ties its own."""
    jobs = [replace(JOB, job_id=number, nodes=f"n{number}") for number in (7, 8)]
    world.propose("d1-a", "d1-b")
    for days in range(3):
        world.look(*jobs, later_s=30 + days * 86400)
    ended = [replace(job, state="COMPLETED", end_time_s=int(NOW_S) + 172900) for job in jobs]
    for job, token in zip(ended, ("d1-a", "d1-b"), strict=True):
        record = record_of(job, job.nodes, "cluster", token)
        record["outcome"]["source"] = "epilog"
        put(world.spool, record["record_id"], json.dumps(record).encode())
    world.look(*ended, later_s=172910)
    assert (world.state("d1-a"), world.state("d1-b")) == (("claimed", 7), ("claimed", 8))


def test_doubt_about_requeued_jobs_lasts_a_day(world: World) -> None:
    """A job that Slurm requeues again and again holds no old proposals of its name for ever."""
    world.propose("d1-a", "d1-b")
    world.look(JOB, later_s=2)
    again = replace(JOB, restarts=1, submit_time_s=int(NOW_S) + 8)
    world.look(again, later_s=86000)
    assert world.state("d1-a") == world.state("d1-b") == ("proposed", None)
    world.look(again, later_s=86500)
    assert world.state("d1-a") is world.state("d1-b") is None


def test_a_job_that_is_tied_already_is_no_candidate(world: World) -> None:
    """The next submission of the same user is not confused with the last one."""
    world.propose("d1-a")
    world.look(JOB, later_s=5)
    world.propose("d1-b", decided_s=NOW_S + 0.2)
    world.look(JOB, later_s=6)
    assert world.state("d1-b") == ("proposed", None)
    world.look(JOB, replace(JOB, job_id=8), later_s=7)
    assert world.state("d1-b") == ("claimed", 8)


def test_doubt_ends_with_the_last_record_that_could_settle_it(world: World) -> None:
    """Every node of the job has spoken and named neither: neither became it."""
    world.propose("d1-a", "d1-b")
    job = replace(ENDED, nodes="n[1-2]")
    node_says(world, "TIMEOUT", "epilog")
    world.look(job, later_s=63)
    world.look(job, later_s=64)
    assert world.state("d1-a") == world.state("d1-b") == ("proposed", None)
    node_says(world, "TIMEOUT", "epilog", node="n2")
    world.look(job, later_s=65)
    world.look(job, later_s=66)
    assert world.state("d1-a") is world.state("d1-b") is None


def test_a_record_that_names_its_proposal_settles_the_doubt(world: World) -> None:
    """One of two is the job's, the other goes."""
    world.propose("d1-a", "d1-b")
    node_says(world, "TIMEOUT", "epilog", token="d1-b")
    world.look(ENDED, later_s=65)
    world.look(ENDED, later_s=66)
    assert (world.state("d1-a"), world.state("d1-b")) == (None, ("claimed", 7))
