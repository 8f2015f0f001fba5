"""Actions, positions and run times of the queue loop, word for word and at their bounds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.loops.loop_state import cluster_state
from slurm_ext.control.loops.planned_loop import DONE
from slurm_ext.control.queue.jobs import Waiting
from slurm_ext.control.queue.order import QueueRank, row
from slurm_ext.control.queue.queue_loop import KIND, QueueLoop
from slurm_ext.control.queue.queue_position import view, waiting_job
from slurm_ext.control.queue.runtime_estimates import (
    RuntimeEstimate,
    RuntimeEstimates,
    _like,
    duration_query,
)
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm.in_memory import MemoryClient
from slurm_ext.slurm.records import JobInfo, NodeInfo

NOW_S = 1_800_000_000.0


def job(job_id: int, **changes: Any) -> JobInfo:
    """A job of a GPU and an hour that waits for its turn."""
    fields: dict[str, Any] = {
        "job_id": job_id,
        "user_name": "ann",
        "name": f"j{job_id}",
        "account": "phys",
        "state": "PENDING",
        "partition": "gpu",
        "submit_time_s": int(NOW_S) - 1000 + job_id,
        "time_limit_minutes": 60,
        "gpus": 1,
        "cpus": 4,
        "priority": 5000,
        "reason": "Priority",
        "qos": "normal",
    }
    return JobInfo(**(fields | changes))


def loop_of(folder: Path, *jobs: JobInfo, **settings: Any) -> tuple[QueueLoop, MemoryClient]:
    """A loop over a cluster that obeys."""
    values = {f"queue.{key}": value for key, value in settings.items()}
    values["paths.state_dir"] = str(folder)
    client = MemoryClient(
        known_jobs=jobs, known_config={"PriorityType": "priority/multifactor"}, obeys=True
    )
    state = cluster_state(folder, "queue")
    state.path.mkdir(parents=True, exist_ok=True)
    return QueueLoop(Settings(values=values), client, state), client


def kept(folder: Path) -> dict[str, Any]:
    """Notes that undo the changes."""
    return cluster_state(folder, "queue").load(dict)


def test_a_long_job_gives_way_in_these_words(tmp_path: Path) -> None:
    """The nice, the reason, what it was and what it is to be; noted before and after it."""
    loop, client = loop_of(tmp_path, job(1, time_limit_minutes=600), job(2))
    (planned,) = loop.plan(NOW_S)
    nice = planned.after["nice"]
    assert nice > 0
    assert (planned.subject, planned.job_id, planned.done) == ("1", 1, f"nice={nice}")
    assert planned.why == (
        "it is predicted to need 10 GPU-hours (by limit): it goes after job 2, place 2"
    )
    assert dict(planned.before) == {"nice": 0, "priority": 5000}
    assert dict(planned.after) == {"nice": nice, "place": 2, "need_s": 36000.0}
    assert loop.apply(planned) == DONE
    assert client.asked == [("nice", 1, nice)]
    longest = {"longest_wait": [999.0, NOW_S]}
    assert kept(tmp_path) == {"nices": {"1": [nice]}, "fixed": [], **longest}
    (undone,) = loop.undo(NOW_S)
    assert (undone.subject, undone.job_id, undone.done) == ("1", 1, "nice=0")
    assert undone.why == "the queue is Slurm's own again"
    assert (dict(undone.before), dict(undone.after)) == ({"nice": nice}, {"nice": 0})
    assert loop.apply(undone) == DONE
    assert kept(tmp_path) == {"nices": {}, "fixed": [], **longest}
    assert loop.undo(NOW_S) == ()


def test_the_age_of_a_running_sibling_counts_at_each_round(tmp_path: Path) -> None:
    """One that has run for long makes those that wait beside it longer, against one that ended."""
    submit_s = int(NOW_S) - 1000
    same = {"name": "sweep", "submit_time_s": submit_s}
    runs = job(1, state="RUNNING", start_time_s=submit_s, time_limit_minutes=6000, **same)
    loop, _ = loop_of(tmp_path, runs, job(2, time_limit_minutes=60_000, **same))
    loop._times._times.siblings.ended(3, _like(runs), submit_s, 60.0)
    lengths = []
    for later_s in (0.0, 40_000.0, 80_000.0):
        loop.plan(NOW_S + later_s)
        (order,) = loop.status()["orders"]
        (waiting,) = order["jobs"]
        lengths.append(waiting["length_s"])
        assert waiting["by"] == "siblings"
    assert lengths == sorted(set(lengths))


def test_only_our_nices_of_waiting_jobs_are_undone(tmp_path: Path) -> None:
    """A job that runs, one with another nice, and one with none are left; an array is one."""
    loop, _ = loop_of(
        tmp_path,
        job(1, nice=10),
        job(2, nice=11),
        job(3, nice=0),
        job(4, nice=10, state="RUNNING"),
        job(6, nice=10, array_job_id=5),
        job(7, nice=10, array_job_id=5),
        job(8, nice=10),
    )
    loop._ours.nices = {number: [0, 10] for number in (1, 2, 3, 4, 5)}
    assert [planned.subject for planned in loop.undo(NOW_S)] == ["1", "5"]


@pytest.mark.parametrize(
    ("change", "settings"),
    [({"comment": "dlqueue=off"}, {}), ({}, {"partitions": ["other"]})],
)
def test_a_job_that_is_left_alone_since_has_no_nice_of_ours(
    tmp_path: Path, change: dict[str, Any], settings: dict[str, Any]
) -> None:
    """Its user opted out, or the site narrowed the settings, while it waited behind others."""
    loop, client = loop_of(tmp_path, job(1, time_limit_minutes=600), job(2))
    (planned,) = loop.plan(NOW_S)
    assert loop.apply(planned) == DONE
    long, short = client.known_jobs
    changed = (replace(long, **change), short)
    loop, client = loop_of(tmp_path, *changed, **settings)
    (back,) = loop.plan(NOW_S)
    assert (back.subject, dict(back.after)) == ("1", {"nice": 0})
    assert back.why == "it is left alone since"
    assert loop.apply(back) == DONE
    assert client.known_jobs[0].nice == 0
    assert loop.plan(NOW_S) == []


def test_without_multifactor_the_status_says_why(tmp_path: Path) -> None:
    """Slurm is asked once."""
    loop, client = loop_of(tmp_path, job(1, time_limit_minutes=600), job(2))
    client.known_config = {"PriorityType": "priority/basic"}
    reason = (
        "Slurm's PriorityType is not priority/multifactor: there a nice would put a job behind"
        " all others"
    )
    assert loop.plan(NOW_S) == ()
    assert loop.status() == {"reason": reason, "orders": [], "left_alone": {}}
    client.known_config = {"PriorityType": "priority/multifactor"}
    assert loop.plan(NOW_S) == ()
    loop, client = loop_of(tmp_path / "b", job(1))
    client.known_config = {}
    assert loop.plan(NOW_S) == ()


def test_the_status_of_a_queue(tmp_path: Path) -> None:
    """Each group by name with its order; the wanted nice is that of now where none is planned."""
    loop, _ = loop_of(
        tmp_path, job(1, time_limit_minutes=600), job(2), job(3, gpus=None), job(4, nice=7)
    )
    assert loop.status() == {}
    (planned,) = loop.plan(NOW_S)
    status = loop.status()
    assert (status["reason"], status["left_alone"]) == (None, {"4": "its user gave it a nice of 7"})
    groups = [(group["partition"], group["qos"], group["gpus"]) for group in status["orders"]]
    assert groups == [("gpu", "normal", False), ("gpu", "normal", True)]
    rows = status["orders"][1]["jobs"]
    assert [(one["job"], one["place"], one["wanted_nice"]) for one in rows] == [
        ("2", 1, 0),
        ("1", 2, planned.after["nice"]),
    ]


@pytest.mark.parametrize(("nice", "wanted"), [(None, 3), (0, 0), (9, 9)])
def test_a_row_of_the_order(nice: int | None, wanted: int) -> None:
    """Every cell; needs and lengths to a tenth."""
    length = RuntimeEstimate(seconds=100.06, by="model", low_s=50.0, high_s=200.0)
    info = job(1, nice=3, gpus=2)
    rank = QueueRank(waiting=Waiting(job_id=1, info=info), length=length, place=4, ahead=None)
    assert row(rank, nice) == {
        "job": "1",
        "user": "ann",
        "name": "j1",
        "place": 4,
        "priority": 5000,
        "nice": 3,
        "wanted_nice": wanted,
        "need": 200.1,
        "length_s": 100.1,
        "low_s": 50.0,
        "high_s": 200.0,
        "by": "model",
        "submit_s": info.submit_time_s,
    }


def test_a_job_without_figures_counts_as_the_least() -> None:
    """A priority of 1, and a CPU."""
    plain = Waiting(job_id=1, info=JobInfo(job_id=1))
    assert (plain.priority, plain.size, plain.members) == (1, 1, 1)
    assert Waiting(job_id=1, info=JobInfo(job_id=1, gpus=0, cpus=3)).size == 3


def test_the_loops_settings() -> None:
    """For the runner."""
    expected = ("queue", "queue.mode", "queue.interval_s", "queue.")
    assert (KIND.name, KIND.mode, KIND.interval, KIND.prefix) == expected


def test_a_query_of_a_waiting_job() -> None:
    """Bytes and seconds; what Slurm does not say stays unknown, the submission is now."""
    full = duration_query(job(1, node_count=2, gpus=4, mem_mib=3), 5.0)
    assert (full.submit_s, full.user, full.job_name) == (NOW_S - 999, "ann", "j1")
    assert (full.account, full.partition) == ("phys", "gpu")
    assert (full.cpus, full.num_nodes, full.gpus) == (4, 2, 2)
    assert (full.mem_bytes, full.time_limit_s) == (3 * 2.0**20, 3600.0)
    empty = duration_query(JobInfo(job_id=1), 5.0)
    assert (empty.submit_s, empty.mem_bytes, empty.time_limit_s) == (5.0, None, None)
    assert duration_query(job(1, submit_time_s=0, mem_mib=0, time_limit_minutes=0), 5.0) == (
        duration_query(job(1, submit_time_s=0, mem_mib=0, time_limit_minutes=0), 9.0)
    )


def test_the_limit_of_a_job_is_its_last_resort(tmp_path: Path) -> None:
    """A limit of 0 minutes is one; no limit counts as a week."""
    times = RuntimeEstimates(tmp_path, busy_timeout_ms=100)
    jobs = [job(1), job(2, time_limit_minutes=0), job(3, time_limit_minutes=None)]
    assert times.of(jobs, NOW_S) == [
        RuntimeEstimate(seconds=seconds, by="limit") for seconds in (3600.0, 0.0, 604800.0)
    ]
    assert _like(job(1, gpus=4, node_count=2)) == ("ann", "j1", 2)


def seen(folder: Path, job_id: int, *jobs: JobInfo, nodes: tuple[NodeInfo, ...] = ()) -> Any:
    """The view of one job."""
    client = MemoryClient(known_jobs=jobs, known_nodes=nodes)
    settings = Settings(values={"paths.state_dir": str(folder), "queue.mode": "off"})
    job = waiting_job(client.jobs(), job_id)
    return None if job is None else view(client, client.jobs(), settings, job, NOW_S)


def node(name: str = "n1", state: str = "MIXED", **changes: Any) -> NodeInfo:
    """A node of two GPUs."""
    fields: dict[str, Any] = {"cpus": 8, "gres": {"gpu": 2}, "partitions": ("gpu",)}
    return NodeInfo(name=name, mem_mib=1, state=state, **(fields | changes))


def test_the_whole_view_of_a_job(tmp_path: Path) -> None:
    """Every field of it, and of the job ahead."""
    runs = job(
        9, state="RUNNING", gpus=2, start_time_s=int(NOW_S) - 600, end_time_s=int(NOW_S) + 3000
    )
    mine = job(2, nice=4, priority=4990, start_time_s=int(NOW_S) + 50)
    first = job(1, gpus=2, nice=1)
    assert seen(tmp_path, 2, runs, mine, first, nodes=(node(),)) == {
        "job": "2",
        "reason": "Priority",
        "partition": "gpu",
        "qos": "normal",
        "submit_s": int(NOW_S) - 998,
        "priority": 4990,
        "nice": 4,
        "place": 2,
        "of": 2,
        "ahead": [
            {
                "job": "1",
                "user": "ann",
                "name": "j1",
                "priority_more": 10,
                "nice": 1,
                "gpus": 2,
                "cpus": 4,
            }
        ],
        "slurm_start_s": int(NOW_S) + 50,
        "expected": {
            "start_s": NOW_S + 6600,
            "low_s": NOW_S + 6600,
            "high_s": NOW_S + 6600,
            "by": ["limit"],
        },
        "order": None,
    }


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        ("IDLE", True),
        ("ALLOCATED", True),
        ("IDLE+POWERED_DOWN", True),
        ("IDLE+NOT_RESPONDING+POWERED_DOWN", True),
        ("IDLE+DRAIN", False),
        ("MIXED+DRAIN", False),
        ("IDLE+NOT_RESPONDING", False),
        ("DOWN", False),
        ("DRAINED", False),
        ("DRAINING", False),
        ("FAILING", False),
        ("UNKNOWN", False),
        ("FUTURE", False),
        ("FAIL", False),
    ],
)
def test_nodes_that_a_start_is_expected_on(tmp_path: Path, state: str, counts: bool) -> None:
    """Those where a job may start, of the job's partition alone."""
    found = seen(tmp_path, 1, job(1, gpus=2), nodes=(node(state=state),))
    assert (found["expected"] is not None) is counts
    other = seen(tmp_path, 1, job(1), nodes=(node(partitions=("cpu",)),))
    assert other["expected"] is None


def test_a_job_on_a_draining_node_is_in_nobodys_way(tmp_path: Path) -> None:
    """What it leaves gets no other job; one on a node that is up keeps its GPUs until its end."""
    nodes = (node(), node("n2", "MIXED+DRAIN"))
    starts = []
    for name in ("n1", "n2"):
        runs = job(9, state="RUNNING", nodes=name, start_time_s=int(NOW_S) - 600, end_time_s=None)
        found = seen(tmp_path, 1, runs, job(1, gpus=2), nodes=nodes)
        starts.append(found["expected"]["start_s"] - NOW_S)
    assert starts == [3000, 0]


def test_jobs_without_gpus_are_expected_by_cpus(tmp_path: Path) -> None:
    """The node's eight; nine are never free."""
    assert seen(tmp_path, 1, job(1, gpus=None, cpus=8), nodes=(node(),))["expected"] is not None
    assert seen(tmp_path, 1, job(1, gpus=None, cpus=9), nodes=(node(),))["expected"] is None
    assert seen(tmp_path, 1, job(1, gpus=0, cpus=8), nodes=(node(gres={}),))["expected"]


def test_the_nearest_fifty_ahead_are_shown(tmp_path: Path) -> None:
    """Of more, the first are left out; the place counts all."""
    jobs = [job(number) for number in range(1, 53)]
    found = seen(tmp_path, 52, *jobs, nodes=(node(),))
    assert (found["place"], found["of"], len(found["ahead"])) == (52, 52, 50)
    assert (found["ahead"][0]["job"], found["ahead"][-1]["job"]) == ("2", "51")


def test_an_array_is_seen_by_its_first_task(tmp_path: Path) -> None:
    """That of the highest priority, of equals the lowest id."""
    tasks = [
        job(number, array_job_id=7, priority=rank) for number, rank in ((8, 5), (9, 6), (10, 6))
    ]
    found = seen(tmp_path, 7, *tasks, nodes=(node(),))
    assert (found["job"], found["priority"], found["place"], found["of"]) == ("7", 6, 1, 3)
    assert seen(tmp_path, 8, *tasks, nodes=(node(),))["place"] == 3


def test_a_job_without_a_reason_waits_for_none(tmp_path: Path) -> None:
    """Slurm has not said one yet: it waits for its turn."""
    found = seen(tmp_path, 1, job(1, reason=""), nodes=(node(),))
    assert (found["reason"], found["place"]) == ("None", 1)
