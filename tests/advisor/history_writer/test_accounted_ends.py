"""Ends that squeue forgot come from slurmdbd, with a cluster made of records."""

from dataclasses import replace

import pytest

from slurm_ext.advisor.history_writer.accounted_ends import (
    KEEP_ASKING_S,
    MOST_SKIPPED,
    AccountedEnds,
)
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.views.queries import job as known_job
from slurm_ext.slurm import AccountedEnd
from tests.advisor.history_writer.a_cluster import ENDED, JOB, NOW_S, World, node_says

END = AccountedEnd(
    job_id=7,
    user_id=1000,
    state="CANCELLED",
    start_time_s=int(NOW_S) + 1,
    end_time_s=int(NOW_S) + 60,
)


def unknown(world: World, state: str = "UNKNOWN") -> AccountedEnds:
    """Whoever asks, after n1 and n2 recorded such an end."""
    for node in ("n1", "n2"):
        node_says(world, state, "epilog", node=node)
    ingest_folder(world.history, world.spool, now_s=NOW_S)
    return AccountedEnds(world.cluster)


def states(world: World) -> set[str]:
    """Of both nodes' parts."""
    found = known_job(world.history, 7)
    return {run["state"] for run in found["runs"]} if found else set()


AGAIN = replace(END, state="FAILED", start_time_s=END.start_time_s + 300, end_time_s=None)


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        ([], "UNKNOWN"),
        ([END], "CANCELLED"),
        ([replace(END, user_id=1001)], "UNKNOWN"),
        ([replace(END, job_id=8)], "UNKNOWN"),
        ([replace(END, state="RUNNING", end_time_s=None)], "UNKNOWN"),
        ([replace(END, state="REQUEUED"), AGAIN], "REQUEUED"),
        ([replace(AGAIN, start_time_s=int(NOW_S), end_time_s=int(NOW_S) + 1), END], "CANCELLED"),
        ([replace(END, start_time_s=9, end_time_s=60)], "UNKNOWN"),
        ([replace(END, state="SOMETHING_NEW")], "UNKNOWN"),
    ],
)
def test_an_end_that_nobody_knew_is_the_accounts(
    world: World, ends: list[AccountedEnd], state: str
) -> None:
    """Of the start that the run was, of its own user's job; of every node at once."""
    asking = unknown(world)
    world.cluster.known_ends = tuple(ends)
    asking.ask(world.history, NOW_S + 120)
    assert states(world) == {state}


def test_who_is_listed_or_known_is_not_asked_about(world: World) -> None:
    """What squeue lists it tells itself; and an end that is known stays."""
    asking = unknown(world)
    world.cluster.known_jobs, world.cluster.known_ends = (ENDED,), (END,)
    asking.ask(world.history, NOW_S + 120)
    assert (states(world), world.cluster.asked) == ({"UNKNOWN"}, [])
    world.cluster.known_jobs = ()
    world.look(ENDED, later_s=130)
    world.cluster.known_jobs = ()
    for _ in range(3):
        asking.ask(world.history, NOW_S + 140)
    assert states(world) == {"TIMEOUT"}


def test_a_run_that_squeue_still_calls_running_is_asked_about(world: World) -> None:
    """A slurmctld that was killed forgot what it had told slurmdbd, and its node knows no end."""
    asking = unknown(world)
    world.cluster.known_jobs, world.cluster.known_ends = (JOB,), (END,)
    asking.ask(world.history, NOW_S + 120)
    assert states(world) == {"CANCELLED"}


def test_questions_that_bring_nothing_come_seldom_and_end(world: World) -> None:
    """A slurmdbd that is away is asked again, less and less often; a new run starts it anew."""
    asking = unknown(world)
    rounds = 8 * (MOST_SKIPPED + 1)
    for number in range(rounds):
        asking.ask(world.history, NOW_S + 120 + number)
    asked = len(world.cluster.asked)
    assert 8 <= asked <= 12
    world.cluster.known_ends = (END,)
    for number in range(MOST_SKIPPED + 1):
        asking.ask(world.history, NOW_S + 300 + number)
    assert states(world) == {"CANCELLED"}
    assert len(world.cluster.asked) == asked + 1


def test_an_old_end_is_asked_about_no_more(world: World) -> None:
    """After a day Slurm has told what it will tell."""
    asking = unknown(world)
    asking.ask(world.history, NOW_S + 60 + KEEP_ASKING_S + 1)
    assert world.cluster.asked == []


def test_a_fresh_writer_knows_whom_to_ask_about(world: World) -> None:
    """The history itself keeps them; a record that comes later is found as well."""
    AccountedEnds(world.cluster).ask(world.history, NOW_S)
    asking = AccountedEnds(world.cluster)
    asking.ask(world.history, NOW_S)
    unknown(world)
    world.cluster.known_ends = (END,)
    asking.ask(world.history, NOW_S + 120)
    assert states(world) == {"CANCELLED"}
