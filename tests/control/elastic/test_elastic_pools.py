"""Elastic jobs and their GPUs at the bounds: who is left alone, what is shared, which shape."""

from typing import Any

import pytest

from slurm_ext.control.elastic.jobs import (
    ElasticPool,
    Resizable,
    gpus_of,
    look,
    pool_json,
    requested_size,
    shape_of,
)
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm.records import JobInfo, NodeInfo, ResizeRequest

SETTINGS = Settings()


def job(number: int = 1, **more: Any) -> JobInfo:
    """A waiting job of four GPUs that opted in for 1 to 8."""
    fields: dict[str, Any] = {
        "job_id": number,
        "user_name": "ada",
        "account": "physics",
        "state": "PENDING",
        "partition": "p",
        "gpus": 4,
        "priority": 100,
        "reason": "Resources",
        "comment": "DLQUEUE_ELASTIC=1-8",
    }
    return JobInfo(**(fields | more))


def node(name: str = "n1", gpus: int = 4, **more: Any) -> NodeInfo:
    """A node of partition p."""
    fields: dict[str, Any] = {"gres": {"gpu": gpus}, "state": "IDLE", "partitions": ("p",)}
    return NodeInfo(name=name, cpus=16, mem_mib=1, **(fields | more))


def left_alone(info: JobInfo, *ours: int, **settings: Any) -> str | None:
    """Reason why a job is left alone; None if it is in a pool."""
    values = {f"elastic.{key}": value for key, value in settings.items()}
    pools, reasons = look([info], [node()], Settings(values=values), ours)
    assert [resizable.info for pool in pools for resizable in pool.jobs] == (
        [] if reasons else [info]
    )
    return reasons.get(info.named)


ARRAY = "it is an array or a part of a heterogeneous job"
OPTED_OUT = "its comment says dlqueue=off"
BAD = "DLQUEUE_ELASTIC is not MIN-MAX (two numbers of GPUs, such as 1-8)"
ONE_TYPE = "it asks for GPUs of one type, which an update would lose"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, None),
        ({"array_job_id": 1, "array_task_id": 0}, ARRAY),
        ({"het_job_id": 1}, ARRAY),
        ({"reservation": "exam"}, "it has a place in the reservation exam"),
        ({"gpus": None}, "it asks for no GPU"),
        ({"gpus": 0}, "it asks for no GPU"),
        ({"gpus": 1}, None),
        ({"gres": "gres:gpu:a100:4"}, ONE_TYPE),
        ({"gres": "gres:gpu:4,gres:mps:x:4"}, None),
        ({"partition": "p,q"}, "it asks for several partitions"),
        ({"state": "RUNNING", "requeues": True}, None),
        ({"state": "RUNNING", "requeues": True, "priority": 0, "reason": "x"}, None),
        ({"state": "RUNNING"}, "it runs, and its user forbids a requeue"),
        ({"state": "SUSPENDED", "requeues": True}, "it is SUSPENDED"),
        ({"state": "COMPLETING"}, "it is COMPLETING"),
        ({"reason": "Dependency"}, "it waits for Dependency"),
        ({"reason": ""}, None),
        ({"reason": "None"}, None),
        ({"reason": "Priority"}, None),
        ({"priority": 0, "reason": "JobHeldUser"}, "it waits for JobHeldUser"),
        ({"priority": 0, "reason": ""}, "it waits for its release"),
        ({"priority": None, "reason": "Resources"}, "it waits for Resources"),
        ({"priority": 1}, None),
        ({"comment": "DLQUEUE_ELASTIC=8"}, BAD),
        ({"comment": "dlqueue=off DLQUEUE_ELASTIC=1-8"}, OPTED_OUT),
        ({"comment": "dlqueue=off DLQUEUE_ELASTIC=8"}, OPTED_OUT),
        (
            {"comment": "DLQUEUE_ELASTIC=8", "reservation": "r"},
            "it has a place in the reservation r",
        ),
    ],
)
def test_the_reason_why_a_job_is_left_alone(fields: dict[str, Any], why: str | None) -> None:
    """One sentence, word for word as status shows it; None for a job that may be resized."""
    assert left_alone(job(**fields)) == why


def test_a_job_waits_by_our_doing() -> None:
    """A job that the loop requeued may be resized while Slurm delays it; a held one may not."""
    assert left_alone(job(reason="BeginTime")) == "it waits for BeginTime"
    assert left_alone(job(reason="BeginTime"), 2) == "it waits for BeginTime"
    assert left_alone(job(reason="BeginTime"), 1) is None
    assert left_alone(job(reason="BeginTime", priority=0), 1) == "it waits for BeginTime"


@pytest.mark.parametrize(
    ("key", "name", "field"),
    [
        ("partitions", "p", "partition"),
        ("accounts", "physics", "account"),
        ("users", "ada", "user"),
    ],
)
def test_settings_choose_whose_jobs_may_be_resized(key: str, name: str, field: str) -> None:
    """A name, or anybody; the reason names the setting."""
    assert left_alone(job(), **{key: [name]}) is None
    assert left_alone(job(), **{key: ["x", "*"]}) is None
    assert left_alone(job(), **{key: ["x"]}) == f"elastic.{key} does not have its {field}"


def test_an_arrays_tasks_share_its_variable() -> None:
    """The environment of a task is known by the array's id; an ended job is not looked at."""
    task = job(5, comment="", array_job_id=4, array_task_id=1)
    ended = job(6, state="COMPLETED")
    variables = {4: "1-2", 6: "1-2", 7: "2-3"}
    pools, reasons = look([task, ended, job(7, comment="")], [node()], SETTINGS, [], variables)
    assert reasons == {"4_1": ARRAY}
    bounds = [(r.name, r.least, r.most) for r in pools[0].jobs]
    assert bounds == [("7", 2, 3)]


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        ("IDLE", True),
        ("MIXED+CLOUD", True),
        ("ALLOCATED", True),
        ("IDLE+POWERED_DOWN", False),
        ("IDLE+POWERING_UP", False),
        ("IDLE+POWERING_DOWN", False),
        ("DOWN", False),
        ("IDLE+DRAIN", False),
        ("FAIL", False),
        ("FAILING", False),
        ("IDLE+NOT_RESPONDING", False),
        ("IDLE+MAINTENANCE", False),
        ("IDLE+RESERVED", False),
    ],
)
def test_gpus_of_a_node_that_cannot_run_a_job_are_not_shared(state: str, usable: bool) -> None:
    """A node that is down, drained, failing, reserved for work on it, or without power."""
    pools, _ = look([job()], [node("n2", 2, state=state), node()], SETTINGS, [])
    assert [(pool.per_node, pool.gpus) for pool in pools] == [(2, 6) if usable else (4, 4)]


def test_a_partition_without_gpus_has_no_pool() -> None:
    """Nothing could be divided there; a node without GPUs, or of others, does not count."""
    assert look([job()], [], SETTINGS, []) == ([], {})
    nodes = [node("n1", 0), node("n2", 4, partitions=("q",))]
    assert look([job()], nodes, SETTINGS, []) == ([], {})
    pools, _ = look([job()], [*nodes, node("n3", 1)], SETTINGS, [])
    assert [(pool.partition, pool.per_node, pool.gpus) for pool in pools] == [("p", 1, 1)]


def test_pools_are_sorted_by_partition() -> None:
    """Each has its own jobs and nodes."""
    nodes = [node("n1", 4, partitions=("p", "r")), node("n2", 2, partitions=("q",))]
    pools, _ = look([job(1, partition="q"), job(2), job(3)], nodes, SETTINGS, [])
    assert [
        (pool.partition, pool.per_node, pool.gpus, [r.name for r in pool.jobs]) for pool in pools
    ] == [("p", 4, 4, ["2", "3"]), ("q", 2, 2, ["1"])]


def test_a_node_is_in_one_pool_only() -> None:
    """Jobs of the later partition are left alone, and it is said why."""
    nodes = [node("n1", 4, partitions=("p", "q")), node("n2", 2, partitions=("q",))]
    pools, reasons = look([job(1, partition="q"), job(2)], nodes, SETTINGS, [])
    assert [(pool.partition, pool.gpus) for pool in pools] == [("p", 4)]
    assert reasons == {"1": "its partition shares nodes with p, where GPUs are divided"}


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ({"partition": "q", "nodes": "n2"}, 4),
        ({"partition": "q", "nodes": "n[2-3]"}, 4),
        ({"partition": "q", "nodes": "n3"}, 8),
        ({"partition": "q", "nodes": ""}, 8),
        ({"partition": "p", "nodes": ""}, 4),
        ({"partition": "p", "nodes": "n3"}, 8),
        ({"partition": "q", "nodes": "n2", "state": "COMPLETED"}, 8),
        ({"partition": "q", "nodes": "n2", "comment": "DLQUEUE_ELASTIC=1-8"}, 4),
    ],
)
def test_gpus_that_a_job_of_another_partition_holds_are_not_shared(
    fields: dict[str, Any], gpus: int
) -> None:
    """Nodes decide, not partitions: a job on a node of the pool holds what is there."""
    both: dict[str, Any] = {"partitions": ("p", "q")}
    nodes = [node("n1", **both), node("n2", **both), node("n3", state="IDLE+DRAIN", **both)]
    other = job(9, **({"comment": "", "state": "RUNNING"} | fields))
    pools, _ = look([job(), other], nodes, SETTINGS, [])
    assert [(pool.partition, pool.gpus) for pool in pools] == [("p", gpus)]


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ({}, 5),
        ({"partition": "q,p"}, 5),
        ({"partition": "q"}, 8),
        ({"partition": "pp"}, 8),
        ({"state": "RUNNING", "priority": 0}, 5),
        ({"state": "COMPLETING"}, 5),
        ({"state": "SUSPENDED"}, 5),
        ({"state": "CONFIGURING"}, 5),
        ({"state": "COMPLETED"}, 8),
        ({"state": "STOPPED"}, 8),
        ({"priority": 0}, 8),
        ({"priority": 1}, 5),
        ({"reason": "Dependency"}, 8),
        ({"gpus": None}, 8),
        ({"gpus": 8}, 0),
        ({"gpus": 9}, 0),
    ],
)
def test_gpus_of_jobs_that_did_not_opt_in_are_not_shared(fields: dict[str, Any], gpus: int) -> None:
    """What they hold, or could start on at any time, is theirs; never less than none is left."""
    rigid = job(2, **({"comment": "", "gpus": 3} | fields))
    (pool,), _ = look([job(), rigid], [node(), node("n2")], SETTINGS, [])
    assert pool.gpus == gpus


@pytest.mark.parametrize(
    ("gres", "expected"),
    [
        ({}, 0),
        ({"gpu": 4, "gpu:a100": 3}, 4),
        ({"gpu:a100": 3, "gpu:v100": 2}, 5),
        ({"mps": 100, "gpus": 1}, 0),
    ],
)
def test_gpus_of_a_node(gres: dict[str, int], expected: int) -> None:
    """Slurm's sum where it writes one, else that of the types."""
    assert gpus_of(node(gres=gres)) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (4, 1, 0, 0)),
        ({"node_count": 2, "tasks": 4, "cpus": 8}, (4, 2, 4, 2)),
        ({"tasks": 3, "cpus": 8}, (4, 1, 3, 0)),
        ({"tasks": 3}, (4, 1, 3, 0)),
        ({"tasks": 0, "cpus": 8}, (4, 1, 0, 0)),
        ({"gpus": None, "tasks": 1, "cpus": 1}, (0, 1, 1, 1)),
    ],
)
def test_the_size_that_a_job_requested(fields: dict[str, Any], expected: tuple[int, ...]) -> None:
    """GPUs, nodes, tasks and CPUs per task; 0 for what Slurm's sums do not tell."""
    names = ("gpus", "nodes", "tasks", "cpus_per_task")
    assert requested_size(job(**fields)) == dict(zip(names, expected, strict=True))


@pytest.mark.parametrize(
    ("size", "gpus", "expected"),
    [
        ((4, 1, 4, 2), 1, (1, 1, 1, 2)),  # a task for each GPU
        ((4, 1, 4, 2), 4, (1, 4, 4, 2)),
        ((4, 1, 4, 2), 8, (2, 4, 8, 2)),
        ((4, 1, 1, 0), 8, (2, 4, 2, None)),  # a task for each node
        ((4, 1, 3, 1), 8, (2, 4, None, 1)),  # neither: as it was
        ((1, 1, 1, 3), 8, (2, 4, 8, 3)),  # both: a task for each GPU
        ((4, 1, 0, 0), 6, (2, 3, None, None)),
        ((5, 1, 5, 2), 5, (1, 5, 5, 2)),  # not alike on two nodes: as its user wrote it
        ((10, 5, 5, 2), 10, (5, 2, 5, 2)),
    ],
)
def test_the_shape_of_a_size(
    size: tuple[int, ...], gpus: int, expected: tuple[int | None, ...]
) -> None:
    """On as few nodes as hold the GPUs, four each; tasks follow, CPUs per task stay."""
    names = ("gpus", "nodes", "tasks", "cpus_per_task")
    nodes, per_node, tasks, cpus = expected
    assert shape_of(dict(zip(names, size, strict=True)), gpus, 4) == ResizeRequest(
        nodes=nodes, gpus_per_node=per_node, tasks=tasks, cpus_per_task=cpus
    )


def test_a_pool_in_the_status() -> None:
    """Each job with what it has, what it may have and what it is to get, if anything."""
    waits, runs = job(1, gpus=None), job(2, state="RUNNING")
    pool = ElasticPool(
        partition="p",
        per_node=4,
        gpus=6,
        jobs=[Resizable(info=waits, least=1, most=8), Resizable(info=runs, least=2, most=4)],
    )
    first = {"job": 1, "gpus": 0, "runs": False, "least": 1, "most": 8, "wanted": None}
    second = {"job": 2, "gpus": 4, "runs": True, "least": 2, "most": 4, "wanted": 3}
    expected = {"partition": "p", "gpus": 6, "jobs": [first, second]}
    assert pool_json(pool, {"2": 3}) == expected
