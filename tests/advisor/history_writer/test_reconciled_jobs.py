"""The history and the ledger follow Slurm's own account of jobs."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.history_writer.slurm_record import record_of
from slurm_ext.advisor.history_writer.untied import UntiedDecision, candidates, certain
from slurm_ext.slurm import JobInfo
from tests.advisor.history_writer.a_cluster import ENDED, JOB, NOW_S, World


def untied(token: str, decided_s: float, uid: int = 1000, name: str = "train.sh") -> UntiedDecision:
    """A ledger entry of ada's."""
    return UntiedDecision(token=token, uid=uid, job_name=name, decided_s=decided_s)


@pytest.mark.parametrize(
    ("late_s", "meant"), [(1.5, True), (1.6, False), (0.0, True), (-1.5, True), (-1.6, False)]
)
def test_a_job_is_meant_by_its_moment(late_s: float, meant: bool) -> None:
    """A second and a half on each side."""
    job = replace(JOB, submit_time_s=1000)
    assert candidates([untied("t", 1000 - late_s)], [job]) == {"t": [7] if meant else []}


def test_a_job_is_meant_by_its_owner_and_name() -> None:
    """Arrays and parts of heterogeneous jobs are never meant."""
    job = replace(JOB, submit_time_s=1000)
    waiting = [untied("a", 1000.0), untied("b", 1000.0, uid=1), untied("c", 1000.0, name="x")]
    others = [
        replace(job, job_id=8),
        replace(job, job_id=9, array_job_id=9),
        replace(job, job_id=10, het_job_id=10),
        replace(job, job_id=11, submit_time_s=None),
    ]
    assert candidates(waiting, [job, *others]) == {"a": [7, 8], "b": [], "c": []}


class CountedJob(JobInfo):
    """A job that counts how often its submit time is looked at."""

    looked = 0

    def __getattribute__(self, name: str) -> Any:
        """The attribute itself."""
        CountedJob.looked += name == "submit_time_s"
        return super().__getattribute__(name)


def test_a_long_sweep_is_compared_with_the_jobs_of_its_moments_alone() -> None:
    """A proposal means the same jobs as one by one, and no job is looked at for each proposal."""
    rng = random.Random(1)
    moments = [1000 + rng.randrange(60) for _ in range(300)]
    jobs = [
        CountedJob(job_id=n, user_id=1000, user_name="ada", name="train.sh", submit_time_s=at_s)
        for n, at_s in enumerate(moments)
    ]
    waiting = [untied(f"d1-{n}", 1000 + 60 * rng.random()) for n in range(300)]
    CountedJob.looked = 0
    found = candidates(waiting, jobs)
    assert CountedJob.looked < 10 * len(jobs)
    assert {token: sorted(ids) for token, ids in found.items()} == {
        one.token: [n for n, at_s in enumerate(moments) if abs(at_s - one.decided_s) <= 1.5]
        for one in waiting
    }


def test_only_what_can_mean_one_thing_is_certain() -> None:
    """One job for the token, and one token for the job."""
    assert certain({"a": [1], "b": [2, 3], "c": [4], "d": [4], "e": []}) == {"a": 1}
    assert certain({"a": [1], "b": [1, 2]}) == {}


def test_the_record_of_a_job_without_one() -> None:
    """Every field that squeue knows; all else is null or empty."""
    job = replace(
        ENDED,
        account="vision",
        partition="gpu",
        work_dir="/w",
        restarts=2,
        time_limit_minutes=3,
        array_job_id=5,
        nodes="n[3-4]",
    )
    assert record_of(job, "n3", "c", "d1-a") == {
        "v": 1,
        "kind": "run",
        "record_id": "c-7-2-n3",
        "identity": {
            "cluster": "c",
            "job_id": 7,
            "restart": 2,
            "node": "n3",
            "user": "ada",
            "uid": 1000,
            "account": "vision",
            "partition": "gpu",
            "job_name": "train.sh",
            "work_dir": "/w",
            "array_job_id": 5,
            "array_task_id": None,
        },
        "allocation": {"cpus": 2, "num_nodes": 1, "time_limit_s": 180},
        "times": {
            "submit_s": int(NOW_S),
            "start_s": int(NOW_S) + 1,
            "end_s": int(NOW_S) + 60,
            "elapsed_s": 59,
        },
        "outcome": {"state": "TIMEOUT", "exit_code": 0, "signal": 15, "source": "reconcile"},
        "host": {},
        "counters": [],
        "timeline": None,
        "corunners": [],
        "decision": "d1-a",
        "probe": {"summaries": [], "faults": []},
    }
    bare = record_of(replace(ENDED, start_time_s=None, end_time_s=5), "n1", "c", None)
    assert bare["identity"]["account"] is None
    assert bare["identity"]["partition"] is None
    assert bare["identity"]["work_dir"] is None
    assert bare["allocation"]["time_limit_s"] is None
    assert bare["times"]["elapsed_s"] is None
    assert record_of(replace(ENDED, end_time_s=None), "n1", "c", None)["times"]["elapsed_s"] is None
    before = replace(ENDED, end_time_s=int(NOW_S))
    assert record_of(before, "n1", "c", None)["times"]["elapsed_s"] == 0


@pytest.mark.parametrize(("reconcile_s", "patience_s"), [(1.0, 5), (4.0, 8), (60.0, 15)])
def test_an_end_without_a_record_has_patience(
    tmp_path: Path, reconcile_s: float, patience_s: int
) -> None:
    """Two rounds, from five to fifteen seconds; once it is written it is not written again."""
    world = World(tmp_path, **{"advisor.reconcile_s": reconcile_s, "site.cluster": "c"})
    name = world.spool / "c-7-0-n1.reconcile.json"
    world.cluster.known_jobs = (ENDED,)
    world.reconciler.reconcile(world.history, NOW_S + 60 + patience_s - 0.1)
    assert not name.exists()
    world.reconciler.reconcile(world.history, NOW_S + 60 + patience_s)
    body = json.loads(name.read_text())
    assert body["decision"] is None
    name.unlink()
    world.reconciler.reconcile(world.history, NOW_S + 600)
    assert not name.exists()
    world.cluster.known_jobs = (replace(ENDED, restarts=1),)
    world.reconciler.reconcile(world.history, NOW_S + 600)
    assert (world.spool / "c-7-1-n1.reconcile.json").exists()
    world.cluster.known_jobs = (ENDED,)  # forgotten meanwhile: looked at again
    world.reconciler.reconcile(world.history, NOW_S + 600)
    assert name.exists()


@pytest.mark.parametrize(
    "job", [replace(ENDED, nodes=""), replace(ENDED, start_time_s=None), replace(JOB)]
)
def test_a_job_that_did_not_run_or_did_not_end_has_no_record(tmp_path: Path, job: JobInfo) -> None:
    """Whatever the time."""
    world = World(tmp_path)
    world.cluster.known_jobs = (job,)
    world.reconciler.reconcile(world.history, NOW_S + 6000)
    assert not world.spool.exists()


@pytest.mark.parametrize(
    ("age_s", "jobs", "state"),
    [
        (2.9, (JOB,), ("proposed", None)),
        (3.0, (JOB,), ("claimed", 7)),
        (9.9, (), ("proposed", None)),
        (10.1, (), None),
    ],
)
def test_the_ages_of_a_proposal(
    tmp_path: Path, age_s: float, jobs: tuple[JobInfo, ...], state: Any
) -> None:
    """Tied after three seconds, dropped after ten."""
    world = World(tmp_path)
    world.propose("d1-a", decided_s=NOW_S)
    world.look(*jobs, later_s=age_s)
    assert world.state("d1-a") == state
