"""Elastic jobs replayed: the tables, the clock, the policies, and that live and replay agree."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from slurm_ext.control.elastic.elastic_loop import ElasticLoop
from slurm_ext.control.loops.loop_state import cluster_state
from slurm_ext.core.errors import InputError
from slurm_ext.core.settings.document import Settings
from slurm_ext.simulate.elastic.applications import Application, applications
from slurm_ext.simulate.elastic.fixed_sizes import Static, Tiresias
from slurm_ext.simulate.elastic.learned_sizes import GeneticPolicy, GoodputPolicy
from slurm_ext.simulate.elastic.replay import (
    ElasticCluster,
    ElasticPolicy,
    ReplayedJob,
    replay_elastic,
)
from slurm_ext.simulate.elastic.workload import WorkloadJob, read_workload
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.slurm.in_memory import MemoryClient
from slurm_ext.slurm.records import JobInfo, NodeInfo
from tests.simulate.elastic.pollux_folder import HEADER, write_folder

CLUSTER = ElasticCluster(nodes=2, per_node=4)
MANY = tuple((f"j{n}", 10 * n, "app", 1 + n % 4, 20 + 10 * (n % 3)) for n in range(7))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One application, and two jobs of it."""
    root = tmp_path_factory.mktemp("pollux")
    write_folder(root)
    write_folder(root / "many", MANY, per_epoch=3000)
    return root


@pytest.fixture(scope="module")
def app(folder: Path) -> Application:
    """The application's tables."""
    return applications(folder / "traces")["app"]


def replayed(
    folder: Path, policy: ElasticPolicy, cluster: ElasticCluster = CLUSTER
) -> ReplayResult:
    """The workload under a policy."""
    jobs = read_workload(folder / "workloads/workload-1.csv")
    return replay_elastic(jobs, applications(folder / "traces"), policy, cluster)


def test_tables_are_read_between_what_was_measured(app: Application) -> None:
    """Linear in the batch, equal under rotation, over sizes where a placement was not measured."""
    assert app.step((1,), 55) == pytest.approx((0.55, 0.0))
    assert app.step((3, 3), 10) == pytest.approx((0.2, 0.1))
    assert app.step((4, 4, 4, 4, 4), 10) == pytest.approx((0.2, 0.1))
    assert app.gradients(110, 2) == pytest.approx((1.0, 9.0))
    assert app.per_node == 4


@pytest.mark.parametrize("policy", [Static, Tiresias])
def test_the_clock_is_the_published_one(folder: Path, policy: Any) -> None:
    """First round after arrival, 30 s without progress, then the tables' speed and AdaScale's gain.

    Job a, arrived at 30 s: from 60 s on one GPU at batch 20, 0.2 s a step, 400 iterations: 60 + 30
    + 80 s. Job b, at 90 s: from 120 s on four GPUs at 40 (10 each): 0.2 s a step, of which each
    is worth 10/(9/2 + 1) iterations: 120 + 30 + 44 s.
    """
    result = replayed(folder, policy(CLUSTER))
    assert result.jct_s == pytest.approx([140.0, 104.0])
    assert result.start_s == pytest.approx([30.0, 90.0])
    assert result.duration_s == pytest.approx([110.0, 74.0])
    assert result.queue_s == pytest.approx([30.0, 30.0])
    assert not result.restarts
    assert result.makespan_s == pytest.approx(164.0)


def test_gpus_in_use_are_those_of_placed_jobs(folder: Path) -> None:
    """From the round in which a job is placed to the end of the round in which it ends."""
    result = replayed(folder, Static(CLUSTER))
    shape = [(float(at), int(used)) for at, used in zip(result.changed_s, result.used, strict=True)]
    assert shape == [(30.0, 1), (90.0, 5), (150.0, 4), (210.0, 0)]


def test_what_has_no_room_waits_and_nobody_is_interrupted(tmp_path: Path) -> None:
    """On one node of 4: b waits for a's GPU, although it asks for more than a holds."""
    write_folder(tmp_path, (("a", 0, "app", 1, 20), ("b", 0, "app", 4, 40), ("c", 0, "app", 3, 30)))
    one = ElasticCluster(nodes=1, per_node=4)
    result = replayed(tmp_path, Static(one), one)
    a, b, c = result.start_s.tolist()
    assert (a, c) == (60.0, 60.0)
    assert b >= result.end_s[[0, 2]].max()
    assert not result.restarts


def test_a_job_with_much_service_gives_way(tmp_path: Path, monkeypatch: Any) -> None:
    """Tiresias: a sinks and lets b start; b sinks too, and a came first: each restarts once."""
    monkeypatch.setattr("slurm_ext.simulate.elastic.fixed_sizes.FIRST_QUEUE_S", 60.0)
    write_folder(tmp_path, (("a", 0, "app", 4, 40), ("b", 100, "app", 4, 40)))
    one = ElasticCluster(nodes=1, per_node=4)
    assert replayed(tmp_path, Tiresias(one), one).restarts == {"a": 1, "b": 1}


def test_a_learned_policy_grows_from_one_gpu_and_ends_sooner(folder: Path) -> None:
    """It measures on one GPU first; every placement that it gives is there (the replay checks)."""
    sizes: list[int] = []

    class Watched(GoodputPolicy):
        def place(self, now_s: float, jobs: Any) -> Any:
            placements = super().place(now_s, jobs)
            sizes.extend(sum(nodes.values()) for nodes in placements.values())
            return placements

    learned = replayed(folder / "many", Watched(CLUSTER))
    assert sizes[0] == 1 < max(sizes)
    assert learned.jct_s.mean() < replayed(folder / "many", Static(CLUSTER)).jct_s.mean()


@pytest.mark.parametrize("interference", [0.0, 0.5])
def test_the_search_ends_every_job_and_is_repeatable(folder: Path, interference: float) -> None:
    """The same seed gives the same replay; jobs may have sizes that are no part of a node."""
    cluster = replace(CLUSTER, interference=interference)
    first, second = (replayed(folder / "many", GeneticPolicy(cluster), cluster) for _ in range(2))
    assert np.array_equal(first.end_s, second.end_s)
    assert (first.end_s > first.start_s).all()
    assert first.used.max() <= 8


def test_jobs_that_share_a_node_are_slowed(folder: Path) -> None:
    """Two jobs of two nodes each, on the same two nodes: half of the speed is left."""

    class Spread(Static):
        def place(self, now_s: float, jobs: Any) -> Any:
            return {job.name: {0: 1, 1: 1} for job in jobs}

    halved = replace(CLUSTER, interference=0.5)
    fast = replayed(folder, Spread(CLUSTER)).jct_s
    slow = replayed(folder, Spread(halved), halved).jct_s
    assert (slow > fast).all()


def test_a_policy_that_starts_nobody_is_an_error(folder: Path) -> None:
    """A replay that never ends would say nothing."""

    class Idle(Static):
        def place(self, now_s: float, jobs: Any) -> Any:
            return {}

    with pytest.raises(InputError, match="starts none of the 2 jobs"):
        replayed(folder, Idle(CLUSTER))


def test_gpus_that_are_not_there_are_refused(folder: Path) -> None:
    """One GPU too many on a node, or a node too many."""

    class Greedy(Static):
        nodes: ClassVar[dict[int, int]] = {}

        def place(self, now_s: float, jobs: Any) -> Any:
            return {job.name: self.nodes for job in jobs[:1]}

    for nodes in ({0: 5}, {2: 1}):
        Greedy.nodes = nodes
        with pytest.raises(RuntimeError, match="not there"):
            replayed(folder, Greedy(CLUSTER))


def test_replay_and_live_decide_alike(app: Application, tmp_path: Path) -> None:
    """One state, as the replay has it and as Slurm and the jobs' reports tell it: same sizes."""
    jobs, infos = [], []
    for number, gpus in ((1, 1), (2, 2), (3, 0)):
        submitted = WorkloadJob(
            name=str(number), arrival_s=float(number), application="app", gpus=1, batch=20
        )
        nodes = {number - 1: gpus} if gpus else {}
        one = ReplayedJob(submitted=submitted, application=app, nodes=nodes)
        if gpus:
            one.measured = {(gpus, 1, gpus, 20): (0.2, 0.05 * (gpus > 1))}
            one.gradients, one.progress = (1.0, 9.0 * number), 100.0 * number
            (tmp_path / f"dlqueue-elastic-{number}.json").write_text(json.dumps(report(one)))
        jobs.append(one)
        infos.append(as_slurm_has_it(one, tmp_path))
    rule = GoodputPolicy(CLUSTER)
    replayed_sizes = {name: sum(there.values()) for name, there in rule.place(0.0, jobs).items()}
    assert sorted(replayed_sizes.values()) != [1, 1, 2]  # somebody is resized
    loop = ElasticLoop(
        Settings(values={"elastic.restart_s": 30.0}),
        MemoryClient(known_jobs=tuple(infos), known_nodes=two_nodes()),
        cluster_state(tmp_path / "state", "elastic"),
    )
    loop.plan(1e6)
    (pool,) = loop.status()["pools"]
    assert {str(row["job"]): row["wanted"] for row in pool["jobs"]} == replayed_sizes


def two_nodes() -> tuple[NodeInfo, ...]:
    """Of four GPUs each."""
    return tuple(
        NodeInfo(name=name, cpus=16, mem_mib=1, gres={"gpu": 4}, state="IDLE", partitions=("p",))
        for name in ("n1", "n2")
    )


def as_slurm_has_it(job: Any, folder: Path) -> JobInfo:
    """The replay's job in Slurm's words."""
    return JobInfo(
        job_id=int(job.name),
        state="RUNNING" if job.gpus else "PENDING",
        partition="p",
        work_dir=str(folder),
        requeues=True,
        gpus=job.gpus or 1,
        tasks=1,
        node_count=1,
        cpus=1,
        priority=1,
        reason="None",
        comment="DLQUEUE_ELASTIC=1-64",
        submit_time_s=int(job.submitted.arrival_s),
    )


def report(job: Any) -> dict[str, Any]:
    """What that job would write."""
    app = job.application
    steps = [
        {"gpus": k, "nodes": n, "local": m, "compute_s": compute, "sync_s": sync}
        for (k, n, _, m), (compute, sync) in job.measured.items()
    ]
    limits = {"initial": app.batches[0], "most": app.batches[-1]}
    limits |= {"local_least": app.local[0], "local_most": app.local[1]}
    noise = dict(zip(("square", "variance"), job.gradients, strict=True))
    left = float(app.ends[-1]) - job.progress
    return {"v": 1, "left": left, "limits": limits, "noise": noise, "steps": steps}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{HEADER}\na,soon,app,1,20\n", ":2"),
        (f"{HEADER}\na,1,app,0,20\n", ":2"),
        (f"{HEADER}\na,1,app,1,0\n", ":2"),
        (f"{HEADER}\na,-1,app,1,20\n", ":2"),
        (f"{HEADER}\na,nan,app,1,20\n", ":2"),
        (f"{HEADER}\na,1,app,1,20\na,2,app,1,20\n", "twice"),
        ("name,time\na,1\n", "no column application, batch_size, num_replicas"),
        (f"{HEADER}\n", "no job"),
    ],
)
def test_a_bad_workload_names_its_line(tmp_path: Path, text: str, said: str) -> None:
    """A wrong time, no GPUs, a name twice, missing columns."""
    path = tmp_path / "workload-1.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_workload(path)


def test_a_folder_without_tables_is_named(tmp_path: Path) -> None:
    """Where there is none, and where one lacks a file."""
    with pytest.raises(InputError, match="folder of tables"):
        applications(tmp_path / "none")
    (tmp_path / "some" / "app").mkdir(parents=True)
    with pytest.raises(InputError, match=r"placements\.csv"):
        applications(tmp_path / "some")
