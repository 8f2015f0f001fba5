"""The live elastic loop on a cluster of records: who is resized, how, and who never is."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.elastic.elastic_loop import ElasticLoop
from slurm_ext.control.elastic.job_report import report_of
from slurm_ext.control.elastic.jobs import OPTED_OUT, bounds_of
from slurm_ext.control.loops.loop_state import cluster_state
from slurm_ext.control.loops.planned_loop import DONE
from slurm_ext.core import elastic_requests
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.elastic.gpu_division import DivisionTerms
from slurm_ext.policy.elastic.optimiser import OPTIMISERS, GpuBudget, divided, sizes_for
from slurm_ext.policy.elastic.utility import ElasticJob, utility_of
from slurm_ext.slurm.in_memory import MemoryClient
from slurm_ext.slurm.records import JobInfo, NodeInfo

REPORT: dict[str, Any] = {
    "v": 1,
    "left": 1e6,
    "limits": {"initial": 128, "most": 4096, "local_least": 16, "local_most": 512},
    "noise": {"square": 1.0, "variance": 100.0},
    "steps": [
        {"gpus": n, "nodes": 1, "local": 128, "compute_s": 0.1, "sync_s": 0.002 * (n > 1)}
        for n in (1, 2, 4)
    ],
}


def job(number: int, gpus: int | None, folder: Path, **more: Any) -> JobInfo:
    """One that opted in for 1 to 8 GPUs and waits, a task for each GPU."""
    fields: dict[str, Any] = {
        "job_id": number,
        "user_id": os.getuid(),
        "user_name": "ada",
        "state": "PENDING",
        "partition": "p",
        "work_dir": str(folder),
        "requeues": True,
        "gpus": gpus,
        "tasks": gpus or 1,
        "cpus": 2 * (gpus or 1),
        "node_count": 1,
        "priority": 100,
        "reason": "Resources",
        "comment": "DLQUEUE_ELASTIC=1-8",
        "submit_time_s": number,
    }
    return JobInfo(**(fields | more))


def running(number: int, gpus: int, folder: Path, **more: Any) -> JobInfo:
    """One that has run long enough to tell."""
    told = REPORT | {"steps": [step for step in REPORT["steps"] if step["gpus"] <= gpus]}
    (folder / f"dlqueue-elastic-{number}.json").write_text(json.dumps(told))
    return job(number, gpus, folder, state="RUNNING", reason="None", **more)


DROPS_CREDENTIALS = {"SLURM_VERSION": "24.11.5"}


class Cluster:
    """Two nodes of four GPUs, and a loop."""

    def __init__(self, folder: Path, *jobs: JobInfo, **settings: Any) -> None:
        nodes = [
            NodeInfo(name=n, cpus=16, mem_mib=1, gres={"gpu": 4}, state="IDLE", partitions=("p",))
            for n in ("n1", "n2")
        ]
        self.client = MemoryClient(
            known_jobs=jobs, known_nodes=tuple(nodes), known_config=DROPS_CREDENTIALS, obeys=True
        )
        self.folder = cluster_state(folder / "state", "elastic")
        self.folder.path.mkdir(parents=True, exist_ok=True)
        values = {f"elastic.{key}": value for key, value in settings.items()}
        values["paths.state_dir"] = str(folder / "state")
        self.settings = Settings(values=values)
        self.loop = self.anew()

    def anew(self) -> ElasticLoop:
        """Another process's."""
        return ElasticLoop(self.settings, self.client, self.folder)

    def round(self, now_s: float = 1e6) -> list[str]:
        """Plan, and do it all."""
        planned = self.loop.plan(now_s)
        assert [self.loop.apply(one) for one in planned] == [DONE] * len(planned)
        return [f"{one.subject}: {one.done}" for one in planned]

    def job(self, number: int) -> JobInfo:
        """As it is now."""
        return next(one for one in self.client.known_jobs if one.job_id == number)

    def now(self, number: int, **fields: Any) -> None:
        """Something happens to a job."""
        self.client.known_jobs = tuple(
            replace(one, **fields) if one.job_id == number else one
            for one in self.client.known_jobs
        )


def test_a_waiting_job_starts_on_its_smallest_size(tmp_path: Path) -> None:
    """Nothing is known of it; tasks and CPUs follow; the next look finds nothing to do."""
    cluster = Cluster(tmp_path, job(1, 4, tmp_path))
    assert cluster.round() == ["1: 4->1 GPUs"]
    now = cluster.job(1)
    assert (now.gpus, now.tasks, now.cpus, now.node_count) == (1, 1, 2, 1)
    assert cluster.round() == []


def test_a_running_job_grows_by_what_it_measured_and_is_never_held(tmp_path: Path) -> None:
    """Requeued, resized while it waits, started at once: two looks, and no hold anywhere."""
    cluster = Cluster(tmp_path, running(1, 2, tmp_path))
    assert cluster.round() == ["1: requeue 2->8 GPUs"]
    cluster.now(1, reason="BeginTime", eligible_time_s=2_000_000)
    assert cluster.round(1e6 + 5) == ["1: 2->8 GPUs, start"]
    now = cluster.job(1)
    assert (now.gpus, now.tasks, now.node_count) == (8, 8, 2)
    asked = [what for what, *_ in cluster.client.asked]
    assert asked == ["requeue", "resize", "delay"]
    cluster.now(1, state="RUNNING")
    assert cluster.round(1e6 + 10) == []


def test_a_loop_that_dies_in_between_goes_on(tmp_path: Path) -> None:
    """What was wanted is on the disk before the requeue."""
    cluster = Cluster(tmp_path, running(1, 2, tmp_path))
    cluster.round()
    cluster.loop = cluster.anew()
    cluster.now(1, reason="BeginTime")
    assert cluster.round(1e6 + 5) == ["1: 2->8 GPUs, start"]


def test_a_job_that_slurm_started_first_is_divided_again(tmp_path: Path) -> None:
    """The loop was away for longer than Slurm waits: the job runs as it was, and may be resized."""
    cluster = Cluster(tmp_path, running(1, 2, tmp_path))
    cluster.round()
    cluster.now(1, state="RUNNING", reason="None")
    assert cluster.round(1e6 + 700) == ["1: requeue 2->8 GPUs"]


def test_what_was_changed_is_put_back(tmp_path: Path) -> None:
    """A job that waits asks for what it asked; one in between starts; one that runs goes on."""
    cluster = Cluster(tmp_path, job(1, 4, tmp_path), running(2, 2, tmp_path))
    cluster.round()
    cluster.now(2, reason="BeginTime")
    for one in cluster.loop.undo(1e6 + 5):
        cluster.loop.apply(one)
    assert [(cluster.job(n).gpus, cluster.job(n).tasks) for n in (1, 2)] == [(4, 4), (2, 2)]
    assert [what for what, *_ in cluster.client.asked].count("delay") == 1
    assert cluster.loop.undo(1e6 + 6) == ()


@pytest.mark.parametrize(
    ("release", "starts"),
    [("24.11.5", True), ("26.05.1-1", True), ("23.11.10", False), ("22.05.8", False), ("", False)],
)
def test_requeued_jobs_start_at_once_where_slurmd_can_that(
    tmp_path: Path, release: str, starts: bool
) -> None:
    """Elsewhere Slurm starts them two minutes later, at their new size: it would drain the node."""
    cluster = Cluster(tmp_path, *(running(n, 1, tmp_path) for n in (1, 2)))
    cluster.client.known_config = {"SLURM_VERSION": release}
    cluster.round()
    resized = [what for what, *_ in cluster.client.asked].count("requeue")
    for number in (1, 2):
        cluster.now(number, state="PENDING", reason="BeginTime")
    done = cluster.round(1e6 + 5)
    assert resized == len(done) == 2
    assert [said.endswith("GPUs, start") for said in done] == [starts] * 2
    assert [what for what, *_ in cluster.client.asked].count("delay") == 2 * starts
    assert cluster.round(1e6 + 10) == []


def test_gpus_of_a_job_that_slurm_lets_wait_are_its_own(tmp_path: Path) -> None:
    """In the two minutes nobody grows into what it was stopped for; undoing leaves it waiting."""
    cluster = Cluster(tmp_path, running(1, 2, tmp_path))
    cluster.client.known_config = {"SLURM_VERSION": "22.05.8"}
    assert cluster.round() == ["1: requeue 2->8 GPUs"]
    cluster.now(1, state="PENDING", reason="BeginTime")
    assert cluster.round(1e6 + 5) == ["1: 2->8 GPUs"]
    cluster.client.known_jobs += (running(2, 1, tmp_path),)
    assert cluster.round(1e6 + 1000) == []
    cluster.loop = cluster.anew()
    (undone,) = cluster.loop.undo(1e6 + 1010)
    assert (undone.done, cluster.loop.apply(undone)) == ("8->2 GPUs", DONE)
    assert not cluster.loop.undo(1e6 + 1020)
    cluster.now(1, state="RUNNING", reason="None")
    assert "2: requeue 1->4 GPUs" in cluster.round(1e6 + 2000)


def test_a_running_job_keeps_its_size_for_a_while(tmp_path: Path) -> None:
    """elastic.least_s after its last change, whatever comes."""
    cluster = Cluster(tmp_path, running(1, 2, tmp_path), least_s=600.0)
    cluster.round()
    cluster.now(1, reason="BeginTime")
    cluster.round(1e6 + 5)
    cluster.now(1, state="RUNNING", reason="None")
    cluster.client.known_jobs += (running(2, 2, tmp_path),)
    assert not any(said.startswith("1:") for said in cluster.round(1e6 + 100))
    assert "1: requeue 8->4 GPUs" in cluster.round(1e6 + 700)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_replay_of_the_same_state_decides_alike(tmp_path: Path, optimiser: str) -> None:
    """Whoever divides: the same function, given what the loop saw, gives what the loop wants."""
    jobs = [running(1, 1, tmp_path), running(2, 2, tmp_path), job(3, 4, tmp_path)]
    cluster = Cluster(tmp_path, *jobs, optimiser=optimiser)
    cluster.loop.plan(1e6)
    (pool,) = cluster.loop.status()["pools"]
    board = GpuBudget(gpus=8, per_node=4)
    sizes = tuple(sorted({*sizes_for(optimiser, board, 8), 1, 2, 4}))
    wishes = [
        utility_of(
            ElasticJob(
                name=str(one.job_id),
                least=1,
                most=8,
                arrival_s=float(one.job_id),
                held=(one.gpus or 0) * (one.state == "RUNNING"),
                report=report_of(one)[0],
            ),
            sizes,
            4,
        )
        for one in jobs
    ]
    terms = DivisionTerms(restart_s=60.0, gpus_a_job=0.0)
    replayed = divided(optimiser, wishes, sizes, board, terms)
    assert {str(row["job"]): row["wanted"] for row in pool["jobs"]} == replayed
    assert sum(replayed.values()) <= 8


def test_others_come_first(tmp_path: Path) -> None:
    """What jobs hold that did not opt in, and what those ask that could start, is not divided."""
    rigid = job(7, 4, tmp_path, comment="", state="RUNNING")
    waits = job(8, 2, tmp_path, comment="")
    cluster = Cluster(tmp_path, running(1, 1, tmp_path), rigid, waits)
    assert cluster.round() == ["1: requeue 1->2 GPUs"]
    assert cluster.job(8).gpus == 2


def test_who_runs_is_never_stopped_for_others(tmp_path: Path) -> None:
    """More running than there is (a node went down): each keeps what it has, and nobody grows."""
    cluster = Cluster(
        tmp_path, *(running(n, 4, tmp_path, comment="DLQUEUE_ELASTIC=4-8") for n in (1, 2))
    )
    cluster.client.known_nodes = (
        replace(cluster.client.known_nodes[0], state="DOWN"),
        cluster.client.known_nodes[1],
    )
    assert cluster.round() == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"comment": "DLQUEUE_ELASTIC=4-1"}, "MIN-MAX"),
        ({"comment": "DLQUEUE_ELASTIC=1-8 DLQUEUE_ELASTIC=2-4"}, "MIN-MAX"),
        ({"comment": "dlqueue=off DLQUEUE_ELASTIC=1-8"}, "dlqueue=off"),
        ({"array_job_id": 1}, "array"),
        ({"reservation": "r"}, "reservation"),
        ({"gpus": None}, "no GPU"),
        ({"partition": "p,q"}, "several partitions"),
        ({"reason": "Dependency"}, "Dependency"),
        ({"priority": 0, "reason": "JobHeldUser"}, "JobHeldUser"),
        ({"state": "RUNNING", "requeues": False}, "forbids"),
        ({"account": "physics"}, "elastic.accounts"),
        ({"gres": "gres:gpu:a100:4"}, "type"),
    ],
)
def test_who_is_left_alone_and_why(tmp_path: Path, fields: dict[str, Any], why: str) -> None:
    """As the user wrote it, and the reason is told."""
    cluster = Cluster(
        tmp_path, job(1, fields.pop("gpus", 4), tmp_path, **fields), accounts=["", "chemistry"]
    )
    assert cluster.round() == []
    (said,) = cluster.loop.status()["left_alone"].values()
    assert why in said


def test_a_variable_of_the_environment_counts_as_a_comment_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As the keeper tells it; a comment goes first, a bad value is told, a bad file is nobody's."""
    said = {1: "", 2: "DLQUEUE_ELASTIC=2-4", 3: "", 5: "dlqueue=off"}
    jobs = [job(n, 4 if n < 3 else 1, tmp_path, comment=word) for n, word in said.items()]
    cluster = Cluster(tmp_path, *jobs)
    elastic_requests.write(tmp_path / "state", {1: "1-8", 2: "1-8", 3: "8", 5: "1-8", 99: "1-8"})
    assert cluster.round() == ["1: 4->1 GPUs", "2: 4->2 GPUs"]
    assert cluster.loop.status()["left_alone"] == {"3": elastic_requests.BAD, "5": OPTED_OUT}
    (tmp_path / "state" / elastic_requests.NAME).write_text("{")
    assert cluster.round(1e6 + 700) == []
    assert "comments alone count" in caplog.text
    assert [row["job"] for row in cluster.loop.status()["pools"][0]["jobs"]] == [2]


def test_nobody_is_asked_who_did_not_opt_in(tmp_path: Path) -> None:
    """Words of others are not ours."""
    for comment in ("", "DLQUEUE_ELASTIC", "elastic=1-4", "xDLQUEUE_ELASTIC=1-4"):
        assert bounds_of(job(1, 4, tmp_path, comment=comment)) is None
    assert bounds_of(job(1, 4, tmp_path, comment="mine;DLQUEUE_ELASTIC=2-16,more")) == (2, 16)


@pytest.mark.parametrize(
    "body",
    [
        "not json",
        "[]",
        "{}",
        '{"v": 2}',
        "[" * 50_000,
        '{"v": 1' + " " * 70_000 + "}",
        json.dumps(REPORT | {"left": "much"}),
        json.dumps(REPORT | {"left": float("nan")}),
        json.dumps(REPORT | {"left": -1}),
        json.dumps(REPORT | {"noise": {"square": 0}}),
        json.dumps(REPORT | {"steps": [{"gpus": 1.5}]}),
        json.dumps(REPORT | {"steps": 3}),
        json.dumps(REPORT | {"limits": REPORT["limits"] | {"most": 1}}),
    ],
)
def test_a_report_that_cannot_be_used_is_none(tmp_path: Path, body: str) -> None:
    """The job keeps its size, and it is told why; the loop goes on."""
    cluster = Cluster(tmp_path, running(1, 2, tmp_path))
    (tmp_path / "dlqueue-elastic-1.json").write_text(body)
    assert cluster.round() == []
    assert "dlqueue-elastic-1.json" in cluster.loop.status()["left_alone"]["1"]


def test_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    """A user's folder may hold anything."""
    cluster = Cluster(tmp_path, running(1, 2, tmp_path))
    path = tmp_path / "dlqueue-elastic-1.json"
    path.rename(tmp_path / "other")
    path.symlink_to(tmp_path / "other")
    assert cluster.round() == []
    path.unlink()
    os.mkfifo(path)
    assert cluster.round() == []


@pytest.mark.parametrize(("release", "grows"), [("24.11.5", True), ("22.05.8", False)])
def test_what_a_restart_costs_counts_what_slurm_adds(
    tmp_path: Path, release: str, grows: bool
) -> None:
    """A job with little to go is not stopped for three minutes to run twice as fast."""
    cluster = Cluster(tmp_path, running(1, 4, tmp_path))
    (tmp_path / "dlqueue-elastic-1.json").write_text(json.dumps(REPORT | {"left": 2.5e4}))
    cluster.client.known_config = {"SLURM_VERSION": release}
    assert cluster.round() == (["1: requeue 4->8 GPUs"] if grows else [])
