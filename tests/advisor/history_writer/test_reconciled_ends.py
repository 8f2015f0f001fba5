"""Jobs that ended have their records and Slurm's word, with a cluster made of records."""

import json
from dataclasses import replace

import pytest

from slurm_ext.advisor.history_writer.reconcile import Reconciler
from slurm_ext.advisor.history_writer.slurm_record import put, record_of
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.ingest.decisions import decision
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.views.queries import job as known_job
from tests.advisor.history_writer.a_cluster import ENDED, JOB, NOW_S, World, node_says


def test_an_end_without_a_record_gets_one_that_names_its_source(world: World) -> None:
    """A node that is gone sends nothing; the outcome comes from squeue, after some patience."""
    world.propose("d1-a")
    world.look(ENDED, later_s=61)
    assert known_job(world.history, 7) == {
        "job_id": 7,
        "runs": [],
        "decision": decision(world.history, job_id=7),
    }
    world.look(ENDED, later_s=70)
    found = known_job(world.history, 7)
    assert found is not None
    (run,) = found["runs"]
    assert (run["state"], run["source"], run["node"]) == ("TIMEOUT", "reconcile", "n1")
    assert (run["elapsed_s"], run["cpus"], run["signal"]) == (59, 2, 15)
    assert run["decision"] == "d1-a"


def test_a_nodes_record_counts_more_and_once_whichever_comes_first(world: World) -> None:
    """The epilog's record replaces ours; where it was first, none of ours is made."""
    world.look(ENDED, later_s=70)
    record = record_of(ENDED, "n1", "cluster", None)
    record["outcome"]["source"] = "epilog"
    (world.spool / f"{record['record_id']}.json").write_text(json.dumps(record))
    world.look(ENDED, later_s=80)
    found = known_job(world.history, 7)
    assert found is not None
    assert [run["source"] for run in found["runs"]] == ["epilog"]
    fresh = Reconciler(Settings(values={"paths.state_dir": str(world.spool.parent)}), world.cluster)
    fresh.reconcile(world.history, NOW_S + 900)
    assert list(world.spool.glob("*.json")) == []


def ends(world: World) -> list[tuple[str, str]]:
    """State and source of every run of the job."""
    found = known_job(world.history, 7)
    return [(run["state"], run["source"]) for run in found["runs"]] if found else []


@pytest.mark.parametrize("order", ["node first", "Slurm first", "both at once"])
@pytest.mark.parametrize(
    ("source", "seen", "slurm", "stands"),
    [
        ("epilog", "FAILED", "TIMEOUT", "TIMEOUT"),
        ("epilog", "COMPLETED", "CANCELLED", "CANCELLED"),
        ("epilog", "FAILED", "NODE_FAIL", "NODE_FAIL"),
        ("epilog", "FAILED", "OUT_OF_MEMORY", "OUT_OF_MEMORY"),
        ("epilog", "UNKNOWN", "COMPLETED", "COMPLETED"),
        ("epilog", "OUT_OF_MEMORY", "FAILED", "OUT_OF_MEMORY"),
        ("epilog", "FAILED", "COMPLETED", "FAILED"),
        ("epilog", "REQUEUED", "CANCELLED", "REQUEUED"),
        ("epilog", "FAILED", "SOMETHING_NEW", "FAILED"),
        ("node", "UNKNOWN", "FAILED", "FAILED"),
        ("node", "NODE_FAIL", "COMPLETED", "COMPLETED"),
    ],
)
def test_slurm_has_the_last_word_on_what_it_ended(
    world: World, order: str, source: str, seen: str, slurm: str, stands: str
) -> None:
    """Whichever comes first: one run, its own source, and the state that is right."""
    job = replace(ENDED, state=slurm)
    if order == "Slurm first":
        world.look(job, later_s=70)
        node_says(world, seen, source)
    else:
        node_says(world, seen, source)
        if order == "node first":
            ingest_folder(world.history, world.spool, now_s=NOW_S)
    world.look(job, later_s=80)
    world.look(job, later_s=90)
    assert ends(world) == [(stands, source)]


def test_a_job_that_never_started_leaves_no_run(world: World) -> None:
    """Cancelled while pending: there was no node and nothing to measure."""
    world.look(replace(ENDED, state="CANCELLED", nodes="", start_time_s=None), later_s=100)
    assert known_job(world.history, 7) is None


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("NODE_FAIL", "NODE_FAIL"),
        ("BOOT_FAIL", "NODE_FAIL"),
        ("DEADLINE", "TIMEOUT"),
        ("OUT_OF_MEMORY", "OUT_OF_MEMORY"),
        ("CANCELLED", "CANCELLED"),
        ("SOMETHING_NEW", "UNKNOWN"),
    ],
)
def test_slurms_states_become_outcomes(state: str, outcome: str) -> None:
    """Every way to end has its word in the history."""
    record = record_of(replace(ENDED, state=state), "n1", "cluster", None)
    assert record["outcome"]["state"] == outcome


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-2,7]", ["n1", "n2", "n7"]),
        ("a,b[1-2]", ["a", "b1", "b2"]),
        ("r[2-3]-x", ["r2-x", "r3-x"]),
        ("rack[1-2]n[3-4]", ["rack1n3", "rack1n4", "rack2n3", "rack2n4"]),
        ("n[1", ["n1"]),
    ],
)
def test_each_node_of_a_job_has_its_record(world: World, nodes: str, names: list[str]) -> None:
    """Slurm's host lists name them; a list that is none counts as one node."""
    world.look(replace(ENDED, nodes=nodes, cpus=8), later_s=70)
    world.look(later_s=71)
    found = known_job(world.history, 7)
    assert found is not None
    assert [run["node"] for run in found["runs"]] == names
    assert {(run["cpus"], run["num_nodes"]) for run in found["runs"]} == {
        (8 // len(names), len(names))
    }


def test_only_nodes_that_sent_nothing_get_a_record(world: World) -> None:
    """One node's disk was full: its part is told by Slurm, the other's stays as it was measured."""
    record = record_of(ENDED, "n1", "cluster", None, nodes=2)
    record["outcome"]["source"] = "epilog"
    put(world.spool, record["record_id"], json.dumps(record).encode())
    ingest_folder(world.history, world.spool, now_s=NOW_S)
    world.look(replace(ENDED, nodes="n[1-2]"), later_s=70)
    found = known_job(world.history, 7)
    assert found is not None
    assert [(run["node"], run["source"]) for run in found["runs"]] == [
        ("n1", "epilog"),
        ("n2", "reconcile"),
    ]


def test_a_job_that_opted_out_gets_no_record(world: World) -> None:
    """Its nodes made none either."""
    world.look(replace(ENDED, comment="x,dlqueue=off"), later_s=70)
    assert known_job(world.history, 7) is None


def test_a_start_that_slurm_took_back_gets_a_record(world: World) -> None:
    """Its node is gone for good, and Slurm lists the job's newest start only."""
    waits = replace(JOB, state="PENDING", nodes="", start_time_s=None, restarts=1)
    again = replace(JOB, restarts=1, nodes="n2", start_time_s=int(NOW_S) + 200)
    world.look(JOB, later_s=2)
    world.look(replace(JOB, state="PENDING", nodes="", start_time_s=None), later_s=30)
    world.look(replace(waits, submit_time_s=int(NOW_S) + 31), later_s=32)
    assert known_job(world.history, 7) is None
    world.look(again, later_s=300)
    world.look(replace(again, state="COMPLETED", end_time_s=int(NOW_S) + 400), later_s=500)
    found = known_job(world.history, 7)
    assert found is not None
    assert [(run["restart"], run["node"], run["state"]) for run in found["runs"]] == [
        (0, "n1", "REQUEUED"),
        (1, "n2", "COMPLETED"),
    ]
    assert [run["elapsed_s"] for run in found["runs"]] == [30, 200]


def test_a_requeued_run_that_is_completing_ends_when_slurm_says_so(world: World) -> None:
    """Until its processes have ended, Slurm lists its nodes with the next run's count and time."""
    requeued_s = int(NOW_S) + 7201
    ends = replace(JOB, state="COMPLETING", restarts=1, start_time_s=requeued_s + 4)
    waits = replace(JOB, state="PENDING", nodes="", restarts=1, submit_time_s=requeued_s)
    world.look(JOB, later_s=7190)
    world.look(ends, later_s=7206)
    world.look(replace(ends, start_time_s=requeued_s + 60), later_s=7261)
    assert known_job(world.history, 7) is None
    world.look(waits, later_s=7290)
    world.look(replace(waits, restarts=2, submit_time_s=requeued_s + 200), later_s=7500)
    world.look(replace(waits, restarts=2, submit_time_s=requeued_s + 200), later_s=7600)
    found = known_job(world.history, 7)
    assert found is not None
    told = [(run["restart"], run["node"], run["state"], run["elapsed_s"]) for run in found["runs"]]
    assert told == [(0, "n1", "REQUEUED", 7200)]


def test_an_end_that_was_taken_in_is_no_requeue(world: World) -> None:
    """A job that completed and was started again by its user ended as it did."""
    world.look(ENDED, later_s=70)
    world.look(replace(JOB, restarts=1), later_s=100)
    world.look(replace(JOB, restarts=1), later_s=200)
    found = known_job(world.history, 7)
    assert found is not None
    assert [run["state"] for run in found["runs"]] == ["TIMEOUT"]


def test_a_requeued_job_has_a_record_for_each_run(world: World) -> None:
    """The restart count is part of a run's name."""
    world.look(ENDED, later_s=70)
    world.look(replace(ENDED, restarts=1, end_time_s=int(NOW_S) + 200), later_s=300)
    found = known_job(world.history, 7)
    assert found is not None
    assert [run["restart"] for run in found["runs"]] == [0, 1]


def test_a_start_whose_requeue_slurm_forgot_is_not_the_one_before(world: World) -> None:
    """A slurmctld that was killed counts the next start as it counted the last one."""
    node_says(world, "REQUEUED", "epilog")
    world.look(later_s=61)
    last_s = int(NOW_S) + 70
    again = replace(ENDED, state="COMPLETED", start_time_s=last_s, end_time_s=last_s + 5)
    world.look(again, later_s=80)
    world.look(again, later_s=100)
    found = known_job(world.history, 7)
    assert found is not None
    (run,) = found["runs"]
    assert (run["state"], run["start_s"], run["source"]) == ("COMPLETED", last_s, "reconcile")
