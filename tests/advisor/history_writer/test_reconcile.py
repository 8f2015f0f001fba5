"""The ledger and the history against what Slurm knows, with a cluster made of records."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.history_writer.reconcile import Reconciler
from slurm_ext.advisor.history_writer.slurm_record import put, record_of
from slurm_ext.advisor.sharing.gpu_sharers import read
from slurm_ext.core import elastic_requests
from slurm_ext.core.job_keys import job_signature
from slurm_ext.core.records import Decision, Level, Mode, Shape
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.ingest.decisions import decision, record_proposals
from slurm_ext.history.ingest.proposals import Proposal
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views.queries import job as known_job
from slurm_ext.slurm import JobInfo, MemoryClient

NOW_S = 1_760_000_000.0
SHAPE = Shape(cpus_per_task=1, num_workers=0)
LEAVE = Decision(action="leave", reason="I do not know yet", before=SHAPE, after=SHAPE)
JOB = JobInfo(
    job_id=7,
    user_id=1000,
    user_name="ada",
    name="train.sh",
    state="RUNNING",
    submit_time_s=int(NOW_S),
    start_time_s=int(NOW_S) + 1,
    nodes="n1",
    cpus=2,
)
ENDED = replace(JOB, state="TIMEOUT", end_time_s=int(NOW_S) + 60, exit_code=0, exit_signal=15)


class World:
    """A history, a cluster and a reconciler over both."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.history: History = open_history(folder / "history.db")
        self.spool = folder / "spool"
        self.cluster = MemoryClient()
        values = {"paths.state_dir": str(folder), "advisor.reconcile_s": 1.0, **settings}
        self.reconciler = Reconciler(Settings(values=values), self.cluster)

    def propose(
        self,
        *tokens: str,
        decided_s: float = NOW_S - 0.5,
        name: str = "train.sh",
        elastic: str | None = None,
    ) -> None:
        """Proposals of ada's."""
        rows = [
            Proposal(
                token=token,
                decided_s=decided_s,
                mode=Mode.SHADOW,
                uid=1000,
                user="ada",
                job_name=name,
                decision=LEAVE,
                elastic=elastic,
            )
            for token in tokens
        ]
        record_proposals(self.history, rows, f"{tokens[0]}.jsonl", 1)

    def look(self, *jobs: JobInfo, later_s: float = 0.0) -> None:
        """One comparison with these jobs, and what it put into the spool is taken in."""
        self.cluster.known_jobs = jobs
        self.reconciler.reconcile(self.history, NOW_S + later_s)
        ingest_folder(self.history, self.spool, now_s=NOW_S + later_s)

    def state(self, token: str) -> tuple[str, int | None] | None:
        """The entry's state and job."""
        row = decision(self.history, token=token)
        return None if row is None else (row["state"], row["job_id"])


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An empty world."""
    return World(tmp_path)


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
    ],
)
def test_somebody_elses_job_ties_nothing(world: World, other: JobInfo) -> None:
    """Another user, name or moment, or an array: not the job that was proposed."""
    world.propose("d1-a")
    world.look(other, later_s=5)
    assert world.state("d1-a") == ("proposed", None)


def test_what_test_only_asked_leaves_no_orphan(world: World) -> None:
    """A proposal that no job can have come from is dropped, and not before it had its time."""
    world.propose("d1-a")
    world.look(later_s=2)
    assert world.state("d1-a") == ("proposed", None)
    world.look(later_s=30)
    assert world.state("d1-a") is None


def test_doubt_waits_for_the_jobs_own_record(world: World) -> None:
    """Two proposals and one job: neither is tied, neither is dropped within a day."""
    world.propose("d1-a", "d1-b")
    world.look(JOB, later_s=30)
    assert world.state("d1-a") == world.state("d1-b") == ("proposed", None)
    world.look(JOB, later_s=2 * 86400)
    assert world.state("d1-a") is None


def test_a_job_that_is_tied_already_is_no_candidate(world: World) -> None:
    """The next submission of the same user is not confused with the last one."""
    world.propose("d1-a")
    world.look(JOB, later_s=5)
    world.propose("d1-b", decided_s=NOW_S + 0.2)
    world.look(JOB, later_s=6)
    assert world.state("d1-b") == ("proposed", None)
    world.look(JOB, replace(JOB, job_id=8), later_s=7)
    assert world.state("d1-b") == ("claimed", 8)


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


def node_says(world: World, state: str, source: str) -> None:
    """The node's own record of the job comes into the spool."""
    record = record_of(ENDED, "n1", "cluster", None)
    record["outcome"].update({"state": state, "source": source})
    put(world.spool, record["record_id"], json.dumps(record).encode())


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


def test_who_shares_is_told_with_the_name_of_its_script(tmp_path: Path) -> None:
    """A sweep's jobs cannot be told apart, and need not be: they are one script."""
    world = World(tmp_path, **{"sharing.mode": "shadow"})
    rows = [
        Proposal(
            token=token,
            decided_s=NOW_S - 0.5,
            mode=Mode.ACT,
            uid=1000,
            user="ada",
            job_name=name,
            decision=LEAVE,
            keys={Level.SCRIPT: key},
        )
        for token, name, key in (
            ("d1-a", "sweep", 1),
            ("d1-b", "sweep", 1),
            ("d1-c", "mixed", 2),
            ("d1-d", "mixed", 3),
        )
    ]
    record_proposals(world.history, rows, "j.jsonl", 1)
    half = replace(JOB, gres="gres:mps:50", partition="gpu")
    jobs = [
        *(replace(half, job_id=n, name="sweep") for n in (1, 2)),
        *(replace(half, job_id=n, name="mixed") for n in (3, 4)),
        replace(JOB, job_id=5, gres="gres:gpu:1"),
        replace(half, job_id=6, name="theirs"),
    ]
    world.look(*jobs, later_s=5)
    queue = read(tmp_path)
    name = job_signature({Level.SCRIPT: 1})
    assert queue.at_s == NOW_S + 5
    assert {one.job: one.key for one in queue.jobs} == {
        "1": name,
        "2": name,
        "3": None,
        "4": None,
        "6": None,
    }


def test_a_tied_job_shares_under_the_name_of_its_own_decision(tmp_path: Path) -> None:
    """Other proposals of the same user and name change nothing for a job that is tied."""
    world = World(tmp_path, **{"sharing.mode": "shadow"})
    half = replace(JOB, gres="gres:mps:50", partition="gpu")
    for token, key in (("d1-mine", 1), ("d1-late", 2)):
        row = Proposal(
            token=token,
            decided_s=NOW_S - 0.5,
            mode=Mode.ACT,
            uid=1000,
            user="ada",
            job_name="train.sh",
            decision=LEAVE,
            keys={Level.SCRIPT: key},
        )
        record_proposals(world.history, [row], f"{token}.jsonl", 1)
        world.look(half, later_s=5.0)
    assert world.state("d1-mine") == ("claimed", 7)
    assert [one.key for one in read(tmp_path).jobs] == [job_signature({Level.SCRIPT: 1})]


def test_whose_environment_lets_its_size_change_is_told(tmp_path: Path) -> None:
    """Of jobs that are alive, tied or not; where two could be meant that differ, of neither."""
    world = World(tmp_path, **{"elastic.mode": "shadow"})
    world.propose("d1-one", elastic="1-8")
    waits = replace(JOB, state="PENDING", nodes="", start_time_s=None)
    world.look(waits)
    assert elastic_requests.read(tmp_path) == {7: "1-8"}
    world.look(waits, later_s=5.0)
    assert world.state("d1-one") == ("claimed", 7)
    sweep = [replace(waits, job_id=n, name="sweep") for n in (8, 9)]
    world.propose("d1-a", "d1-b", name="sweep", elastic="2-4")
    unlike = [replace(waits, job_id=n, name="unlike") for n in (10, 11)]
    world.propose("d1-c", name="unlike", elastic="2-4")
    world.propose("d1-d", name="unlike")
    world.look(waits, *sweep, *unlike, later_s=6.0)
    assert elastic_requests.read(tmp_path) == {7: "1-8", 8: "2-4", 9: "2-4"}
    for other in (replace(waits, user_id=1001), replace(waits, name="other.sh")):
        world.look(other, later_s=6.5)  # ids begin anew where slurmctld lost its state
        assert elastic_requests.read(tmp_path) == {}
    world.look(ENDED, later_s=7.0)
    assert elastic_requests.read(tmp_path) == {}


def test_while_nobody_is_resized_nothing_is_told(world: World, tmp_path: Path) -> None:
    """The loop is off: no file."""
    world.propose("d1-one", elastic="1-8")
    world.look(JOB)
    assert not (tmp_path / elastic_requests.NAME).exists()
