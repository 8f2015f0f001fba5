"""Units of the queue loop at their bounds: positions, time left, arrays, groups and nices."""

from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.loops.loop_state import cluster_state
from slurm_ext.control.queue.jobs import OwnNices, Waiting, look
from slurm_ext.control.queue.order import QueueRank, in_order, longest_wait, need_in_words
from slurm_ext.control.queue.queue_loop import QueueLoop, _why, nices_from_json
from slurm_ext.control.queue.queue_position import (
    FAR_S,
    _bound,
    _is_peer,
    _left,
    _rank,
    _slurms,
    _tasks,
    _units,
)
from slurm_ext.control.queue.runtime_estimates import RuntimeEstimate, RuntimeEstimates
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.queue.ageing import LongestWait
from slurm_ext.slurm import JobInfo, MemoryClient

NOW_S = 10_000.0
SETTINGS = Settings(
    values={"queue.partitions": ["*"], "queue.accounts": ["*"], "queue.users": ["*"]}
)
MODEL = RuntimeEstimate(seconds=600.0, by="model", low_s=60.0, high_s=900.0)
LIMIT = RuntimeEstimate(seconds=600.0, by="limit")


def job(job_id: int = 1, **changes: Any) -> JobInfo:
    """A GPU job that waits for its turn."""
    fields: dict[str, Any] = {
        "job_id": job_id,
        "user_name": "ann",
        "name": "j",
        "state": "PENDING",
        "partition": "gpu",
        "gpus": 2,
        "cpus": 4,
        "priority": 100,
        "reason": "Priority",
        "nice": 0,
    }
    return JobInfo(**{**fields, **changes})


def test_time_left_of_a_running_job() -> None:
    """Its start and the prediction, or its limit where nothing better is known."""
    runs = job(state="RUNNING", start_time_s=9_900, end_time_s=13_000)
    assert _left(runs, MODEL, "seconds", NOW_S) == 500.0
    assert _left(runs, MODEL, "low_s", NOW_S) == -40.0
    assert _left(runs, MODEL, "high_s", NOW_S) == 800.0
    assert _left(runs, LIMIT, "low_s", NOW_S) == 3000.0
    unknown = job(state="RUNNING", start_time_s=None, end_time_s=None)
    assert _left(unknown, LIMIT, "seconds", NOW_S) == 600.0
    assert (_bound(LIMIT, "low_s"), _bound(MODEL, "low_s")) == (600.0, 60.0)


@pytest.mark.parametrize(
    ("tasks", "count"),
    [
        ("", 1),
        ("3", 1),
        ("0-3", 4),
        ("0-3,7", 5),
        ("10-20:5", 3),
        ("0-3,7,10-20:5%2", 8),
        ("0-999", 1000),
        ("0-1000", 1000),
    ],
)
def test_tasks_of_an_array(tasks: str, count: int) -> None:
    """Its list as Slurm writes it; at most a thousand."""
    assert _tasks(job(array_tasks=tasks)) == count


def test_what_a_job_takes() -> None:
    """GPUs or CPUs."""
    assert (_units(job(), True), _units(job(), False)) == (2, 4)
    assert (_units(job(gpus=None), True), _units(job(cpus=None), False)) == (0, 1)


def test_jobs_that_wait_where_the_job_waits() -> None:
    """One partition in common, their turn, and a priority; order by priority, then by id."""
    mine = job(partition="gpu,cpu")
    assert _is_peer(job(2, partition="x,cpu"), mine)
    for changes in (
        {"partition": "x"},
        {"state": "RUNNING"},
        {"priority": 0},
        {"reason": "Dependency"},
    ):
        assert not _is_peer(job(2, **changes), mine)
    jobs = [job(3, priority=5), job(1, priority=5), job(2, priority=9), job(4, priority=None)]
    assert [one.job_id for one in sorted(jobs, key=_rank)] == [2, 1, 3, 4]


def test_slurms_own_start_is_near() -> None:
    """Within a year, and not more than a minute ago."""
    for start_s, known in (
        (9_940, False),
        (9_941, True),
        (int(NOW_S + FAR_S) - 1, True),
        (int(NOW_S + FAR_S), False),
        (None, False),
    ):
        assert (_slurms(job(start_time_s=start_s), NOW_S) is not None) is known


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"reason": "JobArrayTaskLimit"}, None),
        ({"eligible_time_s": 10_001}, None),
        ({"eligible_time_s": 10_002}, "it is not to start yet (begin time)"),
        ({"priority": 0}, "it is held"),
        ({"reason": "QOSMaxJobs"}, "it waits for QOSMaxJobs"),
        ({"reason": "Dependency", "dependency": "afterok:3"}, "it waits for other jobs: afterok:3"),
        ({"reason": "Priority", "dependency": "afterok:3"}, None),
        ({"comment": "dlqueue=off"}, "it opted out"),
        ({"het_job_id": 4}, "it is a part of a heterogeneous job"),
        ({"reservation": "r"}, "it has a place in the reservation r"),
        ({"nice": 5}, "its user gave it a nice of 5"),
    ],
)
def test_jobs_that_are_left_alone(changes: dict[str, Any], why: str | None) -> None:
    """Each with its reason."""
    found = look([job(**changes)], OwnNices(), SETTINGS, NOW_S)
    assert dict(found.left_alone) == ({} if why is None else {"1": why})
    assert bool(found.groups) is (why is None)


@pytest.mark.parametrize(
    ("key", "value"), [("partitions", "gpu"), ("accounts", "phys"), ("users", "ann")]
)
def test_only_what_the_settings_name_is_ordered(key: str, value: str) -> None:
    """Each partition of the job has to be named."""
    mine = job(account="phys")
    for allowed, ordered in (([value], True), (["other"], False), (["*"], True), ([], False)):
        settings = Settings(values={**SETTINGS.values, f"queue.{key}": allowed})
        assert bool(look([mine], OwnNices(), settings, NOW_S).groups) is ordered
    settings = Settings(values={**SETTINGS.values, "queue.partitions": ["gpu"]})
    both = look([job(partition="gpu,cpu")], OwnNices(), settings, NOW_S)
    assert "queue.partitions does not have its partition" in both.left_alone["1"]


def test_groups_are_of_one_partition_qos_and_kind() -> None:
    """An array is one, by its task of the highest priority."""
    jobs = [
        job(1),
        job(2, gpus=None),
        job(3, qos="high"),
        job(4, partition="cpu"),
        job(11, array_job_id=10, priority=5),
        job(12, array_job_id=10, priority=7),
        job(13, array_job_id=10, priority=7, state="RUNNING"),
    ]
    found = look(jobs, OwnNices(), SETTINGS, NOW_S)
    assert {group: [one.job_id for one in some] for group, some in found.groups.items()} == {
        ("gpu", "", True): [1, 10],
        ("gpu", "", False): [2],
        ("gpu", "high", True): [3],
        ("cpu", "", True): [4],
    }
    array = found.groups["gpu", "", True][1]
    assert (array.info.job_id, array.members, array.priority, array.subject) == (12, 2, 7, "10")
    cpus = found.groups["gpu", "", False][0]
    assert (cpus.size, array.size) == (4, 2)


def test_a_nice_that_somebody_else_set_is_theirs() -> None:
    """Ours is ours while every task has it; one that has another is changed."""
    ours = OwnNices(nices={10: [0, 20], 3: [30]}, fixed={4})
    tasks = [job(11, array_job_id=10, nice=20), job(12, array_job_id=10, nice=0)]
    found = look([*tasks, job(3, nice=31), job(4)], ours, SETTINGS, NOW_S)
    assert found.changed == {3}
    assert set(found.left_alone) == {"3", "4"}
    assert "was set by somebody since" in found.left_alone["3"]
    mixed = [job(11, array_job_id=10, nice=0), job(12, array_job_id=10, nice=7)]
    assert set(look(mixed, OwnNices(), SETTINGS, NOW_S).left_alone) == {"10"}
    two = OwnNices(nices={})
    assert look(tasks[1:], two, SETTINGS, NOW_S).left_alone == {}
    assert ours.of(3) == [0, 30]
    assert ours.of(99) == [0]


def test_needs_in_words() -> None:
    """Minutes up to two hours, then hours."""
    assert need_in_words(7199.0, gpus=True) == "120 GPU-minutes"
    assert need_in_words(7200.0, gpus=True) == "2 GPU-hours"
    assert need_in_words(60.0, gpus=False) == "1 CPU-minutes"


def test_nices_are_read_as_they_were_kept() -> None:
    """Nothing where nothing was."""
    assert nices_from_json({}) == OwnNices()
    read = nices_from_json({"nices": {"7": [10, 0]}, "fixed": [3]})
    assert (read.nices, read.fixed) == ({7: [10, 0]}, {3})
    assert nices_from_json({"longest_wait": [9.0, 5]}).longest == LongestWait(9.0, 5.0)


@pytest.mark.parametrize(
    ("now", "nice", "ahead", "end"),
    [
        (10, 0, True, ": it goes first again"),
        (10, 0, False, ": it goes first again"),
        (0, 0, False, "(by model)"),
        (0, 0, True, "(by model)"),
        (0, 10, True, ": it goes after job 2, place 3"),
        (0, 10, False, "(by model)"),
        (20, 10, True, ": it goes after job 2, place 3"),
    ],
)
def test_why_a_nice_is_set(now: int, nice: int, ahead: bool, end: str) -> None:
    """What it needs, and whom it lets pass."""
    before = Waiting(job_id=2, info=job(2)) if ahead else None
    waiting = Waiting(job_id=1, info=job(nice=now))
    why = _why(QueueRank(waiting=waiting, length=MODEL, place=3, ahead=before), nice)
    assert why.startswith("it is predicted to need 20 GPU-minutes (by model)")
    assert why.endswith(end)
    assert ("goes" in why) is not end.startswith("(")


def test_jobs_of_others_are_forgotten(tmp_path: Path) -> None:
    """One that has ended, and one whose nice somebody else set: it is theirs until it ends."""
    client = MemoryClient(known_config={"PriorityType": "priority/multifactor"})
    settings = Settings(values={**SETTINGS.values, "paths.state_dir": str(tmp_path)})
    state = cluster_state(tmp_path, "queue")
    state.lock()
    state.keep({"nices": {"1": [10], "2": [10], "3": [10]}, "fixed": [4, 5]})
    client.known_jobs = (job(1, nice=10), job(2, nice=11), job(4))
    loop = QueueLoop(settings, client, state)
    loop.plan(NOW_S)
    assert (loop._ours.nices, loop._ours.fixed) == ({1: [10]}, {2, 4})


@pytest.mark.parametrize(
    ("times", "since_s"),
    [
        ({}, None),
        ({"submit_time_s": 50}, 50),
        ({"submit_time_s": 50, "eligible_time_s": 50}, 50),
        ({"submit_time_s": 50, "eligible_time_s": 900}, 900),
        ({"submit_time_s": 900, "eligible_time_s": 50}, 900),
    ],
)
def test_a_job_waits_since_it_could_start(times: dict[str, int], since_s: int | None) -> None:
    """Not while it waited for its own dependency or begin time: that is no wait in the queue."""
    assert Waiting(job_id=1, info=job(**times)).since_s == since_s


def test_ageing_counts_from_when_a_job_could_start(tmp_path: Path) -> None:
    """Two alike: the one that became eligible first goes first, and its wait is the longest."""
    times = RuntimeEstimates(tmp_path, busy_timeout_ms=100)
    chained = Waiting(job_id=1, info=job(1, submit_time_s=0, eligible_time_s=9_000))
    plain = Waiting(job_id=2, info=job(2, submit_time_s=8_000, eligible_time_s=8_000))
    longest = longest_wait(LongestWait(), {plain.group: [chained, plain]}, NOW_S)
    assert longest == LongestWait(2_000, NOW_S)
    order = in_order([chained, plain], "qssf+ageing", times, NOW_S, longest)
    assert [rank.waiting.job_id for rank in order] == [2, 1]
