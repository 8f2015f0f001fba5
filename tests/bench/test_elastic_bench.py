"""The elastic benchmark: its tables, its clock, and that a learned rule is told no table."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from contrib.bench.elastic import replay, tables
from contrib.bench.elastic.baselines import Tiresias
from contrib.bench.elastic.policies import KINDS, Elastic
from slurm_ext.control.elastic.elastic_loop import ElasticLoop
from slurm_ext.control.loops.loop_memory import LoopFolder
from slurm_ext.core.errors import InputError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm.in_memory import MemoryClient
from slurm_ext.slurm.records import JobInfo, NodeInfo
from tests.bench.program import run_bench

EPOCHS, PER_EPOCH = 4, 100


def write(path: Path, columns: str, rows: list[tuple[Any, ...]]) -> None:
    """One table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns.split(","), *rows])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One application: a step takes batch/100 s and 0.1 s to synchronise; two jobs of it."""
    root = tmp_path_factory.mktemp("pollux")
    places = ["1", "2", "3", "4", "11", "22", "33", "44", "1111", "4444"]
    sync = dict.fromkeys(places[1:], 0.1) | {"1": 0.0}
    rows = [(p, m, m / 100 + sync[p], sync[p]) for p in places for m in (10, 100)]
    write(root / "traces/app/placements.csv", "placement,local_bsz,step_time,sync_time", rows)
    scales = [(n, n * g, m, m / 100 + 0.1, 0.1) for n in (2, 16) for g in (1, 4) for m in (10, 100)]
    names = "num_nodes,num_replicas,local_bsz,step_time,sync_time"
    write(root / "traces/app/scalability.csv", names, scales)
    for batch in (20, 200):
        runs = [(PER_EPOCH * (e + 1), e, 0.5, 1.0, 9.0) for e in range(EPOCHS)]
        columns = "progress,iteration,metric,grad_sqr,grad_var"
        write(root / f"traces/app/validation-{batch}.csv", columns, runs)
    jobs = [("a", 30, "app", 1, 20), ("b", 90, "app", 4, 40)]
    write(root / "workloads/workload-1.csv", "name,time,application,num_replicas,batch_size", jobs)
    return root


def replayed(folder: Path, rule: Any) -> Any:
    """The workload under a rule."""
    apps = tables.applications(folder / "traces")
    jobs = tables.workload(folder / "workloads/workload-1.csv")
    return replay.replay(jobs, apps, rule, nodes=2)


def test_tables_are_read_between_what_was_measured(folder: Path) -> None:
    """Linear in the batch, equal under rotation, over sizes where a placement was not measured."""
    app = tables.applications(folder / "traces")["app"]
    assert app.step((1,), 55) == pytest.approx((0.55, 0.0))
    assert app.step((3, 3), 10) == pytest.approx((0.2, 0.1))
    assert app.step((4, 4, 4, 4, 4), 10) == pytest.approx((0.2, 0.1))
    assert app.gradients(110, 2) == pytest.approx((1.0, 9.0))


def test_the_clock_is_the_published_one(folder: Path) -> None:
    """First round after arrival, 30 s without progress, then the tables' speed and AdaScale's gain.

    Job a, arrived at 30 s: from 60 s on one GPU at batch 20, 0.2 s a step, 400 iterations: 60 + 30
    + 80 s. Job b, at 90 s: from 120 s on four GPUs at 40 (10 each): 0.2 s a step, of which each
    is worth 10/(9/2 + 1) iterations: 120 + 30 + 44 s.
    """
    outcome = replayed(folder, Tiresias(nodes=2))
    assert outcome.jct_s == pytest.approx({"a": 140.0, "b": 104.0})
    assert outcome.restarts == 0


def test_a_learned_rule_grows_from_one_gpu_and_ends_sooner(folder: Path) -> None:
    """It measures on one GPU first; every placement that it gives is there (the replay checks)."""
    sizes: list[int] = []

    class Watched(Elastic):
        def place(self, now_s: float, jobs: Any) -> Any:
            placed = super().place(now_s, jobs)
            sizes.extend(sum(there.values()) for there in placed.values())
            return placed

    outcome = replayed(folder, Watched(KINDS["ours"], nodes=2))
    assert sizes[0] == 1
    assert len(outcome.jct_s) == 2


def test_a_learned_rule_never_asks_the_tables(folder: Path, monkeypatch: Any) -> None:
    """Only the replay's own step reads them: a rule that does so in deciding fails here."""
    inside: list[bool] = []
    real_step = tables.Application.step

    def guarded(self: Any, *args: Any) -> Any:
        assert not inside
        return real_step(self, *args)

    class Watched(Elastic):
        def place(self, now_s: float, jobs: Any) -> Any:
            inside.append(True)
            placed = super().place(now_s, jobs)
            inside.clear()
            return placed

    monkeypatch.setattr(tables.Application, "step", guarded)
    assert len(replayed(folder, Watched(KINDS["ours"], nodes=2)).jct_s) == 2
    with pytest.raises(AssertionError):
        replayed(folder, Watched(KINDS["oracle"], nodes=2))


def test_replay_and_live_decide_alike(folder: Path, tmp_path: Path) -> None:
    """One state, as the replay has it and as Slurm and the jobs' reports tell it: same sizes."""
    app = tables.applications(folder / "traces")["app"]
    jobs, infos = [], []
    for number, gpus in ((1, 1), (2, 2), (3, 0)):
        asked = tables.Asked(
            name=str(number), arrival_s=float(number), application="app", gpus=1, batch=20
        )
        nodes = {number - 1: gpus} if gpus else {}
        one = replay.Job(asked=asked, application=app, nodes=nodes)
        if gpus:
            one.measured = {(gpus, 1, gpus, 20): (0.2, 0.05 * (gpus > 1))}
            one.gradients, one.progress = (1.0, 9.0 * number), 100.0 * number
            (tmp_path / f"dlqueue-elastic-{number}.json").write_text(json.dumps(report(one)))
        jobs.append(one)
        infos.append(as_slurm_has_it(one, tmp_path))
    rule = Elastic(KINDS["ours"], nodes=2)
    replayed_sizes = {name: sum(there.values()) for name, there in rule.place(0.0, jobs).items()}
    assert sorted(replayed_sizes.values()) != [1, 1, 2]  # somebody is resized
    loop = ElasticLoop(
        Settings(values={"elastic.restart_s": 30.0}),
        MemoryClient(known_jobs=tuple(infos), known_nodes=two_nodes()),
        LoopFolder(tmp_path / "state", "elastic"),
    )
    loop.plan(1e6)
    (pool,) = loop.details()["pools"]
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
        job_id=int(job.name), state="RUNNING" if job.gpus else "PENDING", partition="p",
        work_dir=str(folder), requeues=True, gpus=job.gpus or 1, tasks=1, node_count=1, cpus=1,
        priority=1, reason="None", comment="DLQUEUE_ELASTIC=1-64",
        submit_time_s=int(job.asked.arrival_s),
    )  # fmt: skip


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
        ("name,time,application,num_replicas,batch_size\na,soon,app,1,20\n", ":2"),
        ("name,time,application,num_replicas,batch_size\na,1,app,0,20\n", ":2"),
        ("name,time,application,num_replicas,batch_size\na,1,app,1,20\na,2,app,1,20\n", "twice"),
        ("name,time\na,1\n", "KeyError"),
    ],
)
def test_a_bad_workload_names_its_line(tmp_path: Path, text: str, said: str) -> None:
    """A wrong time, no GPUs, a name twice, missing columns."""
    path = tmp_path / "workload-1.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        tables.workload(path)


def test_a_folder_without_workloads_is_one_line(tmp_path: Path) -> None:
    """Status 1, and the folder is named."""
    said = run_bench("elastic", "--workloads", tmp_path, "--traces", tmp_path)
    assert said.returncode == 1
    assert str(tmp_path) in said.stderr
    assert "Traceback" not in said.stderr
