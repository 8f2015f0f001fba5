"""Position of a waiting job in Slurm's order: jobs ahead of it, and its expected start.

For `dlqueue explain`. It needs Slurm; history and model only make the times better.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slurm_ext.control.loops.loop_state import cluster_state
from slurm_ext.control.queue.jobs import ITS_TURN, OwnNices, look, unit_of
from slurm_ext.control.queue.order import in_order, longest_wait, row
from slurm_ext.control.queue.queue_loop import nices_from_json
from slurm_ext.control.queue.runtime_estimates import (
    RuntimeEstimate,
    RuntimeEstimates,
    StickyEstimates,
)
from slurm_ext.core.errors import InputError
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.queue.nice import starts_in_s
from slurm_ext.slurm.client import SlurmClient
from slurm_ext.slurm.records import ENDED_STATES, JobInfo, NodeInfo

MOST_AHEAD = 50  # of those before it, the nearest
FAR_S = 365 * 86400.0  # Slurm's word for "after a job without a time limit"
MOST_TASKS = 1000  # of one array
_SPAN = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_NO_ROOM = frozenset(  # base states and flags of nodes that get no job
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "UNKNOWN", "FUTURE"}
)


def waiting_job(
    jobs: Sequence[JobInfo], job_id: int, *, task: int | None = None, of_uid: int | None = None
) -> JobInfo | None:
    """The waiting job, or an array's next task; `of_uid`: only if it is this user's."""
    own = (job for job in jobs if of_uid in (None, job.user_id))
    named = [job for job in own if job.state == "PENDING" and _is_named(job, job_id, task)]
    return min(named, key=_rank, default=None)


def running(
    jobs: Sequence[JobInfo], job_id: int, *, task: int | None = None, of_uid: int | None = None
) -> dict[str, Any] | None:
    """`{state, nodes, start_s, end_s}` of a job that has nodes; `end_s` is when its time is up.

    `of_uid`: only if it is this user's. None: it has no nodes.
    """
    own = (job for job in jobs if of_uid in (None, job.user_id))
    for job in own:
        if _is_named(job, job_id, task) and job.state not in ENDED_STATES and job.nodes:
            times = {"start_s": job.start_time_s, "end_s": job.end_time_s}
            return {"state": job.state, "nodes": job.nodes, **times}
    return None


def view(
    client: SlurmClient, jobs: Sequence[JobInfo], settings: Settings, job: JobInfo, now_s: float
) -> dict[str, Any]:
    """`{reason, place, of, ahead, slurm_start_s, expected, order, ...}` of a waiting job.

    Times are Unix seconds. Raises SlurmError.
    """
    peers = sorted((other for other in jobs if _is_peer(other, job)), key=_rank)
    ahead = [other for other in peers if _rank(other) < _rank(job)]
    its_turn = job in peers
    busy_ms = settings["history.busy_timeout_ms"]
    times = RuntimeEstimates(settings.state_dir, busy_timeout_ms=busy_ms)
    expected = _expected(client.nodes(), jobs, ahead, job, times, now_s) if its_turn else None
    return {
        "job": str(job.array_job_id or job.job_id),
        "reason": job.reason or "None",
        "partition": job.partition,
        "qos": job.qos,
        "submit_s": job.submit_time_s,
        "priority": job.priority,
        "nice": job.nice,
        "place": len(ahead) + 1 if its_turn else None,
        "of": len(peers),
        "ahead": [_before(other, job) for other in ahead[-MOST_AHEAD:]],
        "slurm_start_s": _slurms(job, now_s),
        "expected": expected,
        "order": _in_loop(jobs, job, settings, times, now_s),
    }


def _is_named(job: JobInfo, job_id: int, task: int | None) -> bool:
    """True for the job, for every task of the array `job_id`, or for its one `task`."""
    if task is None:
        return job_id in (job.job_id, unit_of(job))
    if job.array_job_id != job_id:
        return False
    return job.array_task_id == task or any(task in span for span in _spans(job))


def _rank(job: JobInfo) -> tuple[int, int]:
    """Slurm's order: priority, then the lower id."""
    return -(job.priority or 0), job.job_id


def _is_peer(other: JobInfo, job: JobInfo) -> bool:
    """True if it waits for its turn in a partition of the job."""
    same = set(other.partition.split(",")) & set(job.partition.split(","))
    return bool(same and other.state == "PENDING" and other.priority and other.reason in ITS_TURN)


def _before(other: JobInfo, job: JobInfo) -> dict[str, Any]:
    return {
        "job": other.named,
        "user": other.user_name,
        "name": other.name,
        "priority_more": (other.priority or 0) - (job.priority or 0),
        "nice": other.nice,
        "gpus": other.gpus,
        "cpus": other.cpus,
    }


def _slurms(job: JobInfo, now_s: float) -> int | None:
    """Slurm's estimate, which backfill makes for the first jobs only."""
    start_s = job.start_time_s
    return start_s if start_s is not None and now_s - 60 < start_s < now_s + FAR_S else None


def _expected(
    nodes: Sequence[NodeInfo],
    jobs: Sequence[JobInfo],
    ahead: Sequence[JobInfo],
    job: JobInfo,
    times: RuntimeEstimates,
    now_s: float,
) -> dict[str, Any] | None:
    """Our expected start: jobs ahead go first and run as long as predicted."""
    by_gpu = bool(job.gpus)
    names = set(job.partition.split(","))
    up = [node for node in nodes if names & set(node.partitions) and has_room(node)]
    capacity = sum(node.gres.get("gpu", 0) if by_gpu else node.cpus for node in up)
    away = {node.name for node in nodes if not has_room(node)}
    runs = [
        other
        for other in jobs
        if other.state == "RUNNING" and other.partition in names and other.nodes not in away
    ]
    ahead = [other for other in ahead for _ in range(_tasks(other))]
    estimate = times.of([*runs, *ahead], now_s)
    running, waiting = estimate[: len(runs)], estimate[len(runs) :]
    starts = []
    for bound in ("low_s", "seconds", "high_s"):
        left = [
            (_units(o, by_gpu), _left(o, t, bound, now_s))
            for o, t in zip(runs, running, strict=True)
        ]
        line = [(_units(o, by_gpu), _bound(t, bound)) for o, t in zip(ahead, waiting, strict=True)]
        starts.append(starts_in_s(capacity, left, line, _units(job, by_gpu)))
    bounds = [start for start in starts if start is not None]
    if len(bounds) < len(starts):
        return None
    at = {"start_s": bounds[1], "low_s": min(bounds), "high_s": max(bounds)}
    by = sorted({other.by for other in estimate})
    return {**{name: round(now_s + value) for name, value in at.items()}, "by": by}


def has_room(node: NodeInfo) -> bool:
    """True if jobs may start there, now or when others have ended; Slurm wakes one that sleeps."""
    flags = set(node.state.split("+"))
    silent = "NOT_RESPONDING" in flags and "POWERED_DOWN" not in flags
    return not silent and not flags & _NO_ROOM


def _tasks(job: JobInfo) -> int:
    """Count an array's waiting tasks: 0-3,7,10-20:5%2; else 1. Slurm may cut the list."""
    return min(MOST_TASKS, sum(map(len, _spans(job)))) or 1


def _spans(job: JobInfo) -> list[range]:
    """Tasks that wait under an array's one id."""
    spans = _SPAN.findall(job.array_tasks.partition("%")[0])
    return [range(int(a), int(b or a) + 1, int(step or 1)) for a, b, step in spans]


def _units(job: JobInfo, by_gpu: bool) -> int:
    return (job.gpus or 0) if by_gpu else (job.cpus or 1)


def _bound(estimate: RuntimeEstimate, bound: str) -> float:
    value = getattr(estimate, bound)
    return estimate.seconds if value is None else float(value)


def _left(job: JobInfo, estimate: RuntimeEstimate, bound: str, now_s: float) -> float:
    """Time left of a running job; past its prediction it may end at any time."""
    if estimate.by == "limit" and job.end_time_s is not None:
        return job.end_time_s - now_s
    return (job.start_time_s or now_s) + _bound(estimate, bound) - now_s


def _in_loop(
    jobs: Sequence[JobInfo], job: JobInfo, settings: Settings, times: RuntimeEstimates, now_s: float
) -> Mapping[str, Any] | None:
    """Its place in the loop's order, or why it is left alone; None: the loop is off."""
    if settings["queue.mode"] == "off":
        return None
    ours = _ours(settings)
    queue = look(jobs, ours, settings, now_s)
    longest = longest_wait(ours.longest, queue.groups, now_s)
    unit = unit_of(job)
    left_alone = queue.left_alone.get(str(unit))
    if left_alone is not None:
        return {"mode": settings["queue.mode"], "left_alone": left_alone}
    estimate = StickyEstimates(times)
    estimate.see(jobs)
    for waiting in queue.groups.values():
        for other in in_order(waiting, settings["queue.order"], estimate, now_s, longest):
            if other.waiting.job_id == unit:
                after = None if other.ahead is None else other.ahead.subject
                place = {"mode": settings["queue.mode"], "of": len(waiting), "after": after}
                return {**place, **row(other, None)}
    return None


def _ours(settings: Settings) -> OwnNices:
    """The nices that the loop has set; none where its state cannot be read."""
    try:
        return cluster_state(settings.state_dir, "queue", writes=False).load(nices_from_json)
    except InputError:
        return OwnNices()
