"""The cause for which a job waits, beside Slurm's word for it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_ext.core.errors import SlurmError
from slurm_ext.slurm.client import SlurmClient
from slurm_ext.slurm.records import JobInfo


def cause_of(
    client: SlurmClient, jobs: Sequence[JobInfo], job: JobInfo, now_s: float
) -> dict[str, Any] | None:
    """A document with its `kind`: limit, dependency, partition, reservation, nodes, begin, array.

    None: Slurm's word says all that there is, or Slurm does not say more.
    """
    simple = _of_job(job, jobs)
    if simple is not None:
        return simple
    try:
        return _of_cluster(client, jobs, job, now_s)
    except (SlurmError, ValueError):  # ValueError: a host list that is none
        return None


def _of_job(job: JobInfo, jobs: Sequence[JobInfo]) -> dict[str, Any] | None:
    from slurm_ext.questions.waiting.dependencies import dependency_of

    if job.reason.startswith("Dependency"):
        return dependency_of(job, jobs)
    if job.reason == "BeginTime" and job.eligible_time_s is not None:
        return {"kind": "begin", "eligible_s": job.eligible_time_s}
    if job.reason == "JobArrayTaskLimit" and job.array_most:
        mine = [task for task in jobs if task.array_job_id == job.array_job_id]
        running = [task.named for task in mine if task.nodes and not task.ended]
        return {"kind": "array", "limit": job.array_most, "running": running}
    return None


def _of_cluster(
    client: SlurmClient, jobs: Sequence[JobInfo], job: JobInfo, now_s: float
) -> dict[str, Any] | None:
    from slurm_ext.questions.waiting.limit_words import limit_name
    from slurm_ext.questions.waiting.limits import limit_of
    from slurm_ext.questions.waiting.partition import REASONS, partition_of
    from slurm_ext.questions.waiting.reserved import nodes_of, reservation_of

    if job.reason in REASONS:
        return partition_of(job, client.partitions(), client.nodes())
    if limit_name(job.reason):
        own = [
            partition.qos
            for partition in client.partitions()
            if partition.name in job.partition.split(",")
        ]
        of_partition = next(filter(None, own), "")
        names = [name for name in dict.fromkeys((of_partition, *job.qos.split(","))) if name]
        return limit_of(job, jobs, client.limits(job.user_name, names), of_partition)
    if job.reason == "Reservation":
        return reservation_of(job, client.reservations())
    if job.reason in ("ReqNodeNotAvail", "Resources"):
        return nodes_of(job, client.nodes(), client.reservations(), now_s)
    return None


def without_others(cause: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The same without what others use of a limit that they share."""
    if cause is None or cause["kind"] != "limit" or cause["user"] is not None:
        return None if cause is None else dict(cause)
    return {**cause, "used": None}


def lines(cause: Mapping[str, Any]) -> Iterator[str]:
    """For people: one fact a line."""
    from slurm_ext.questions.waiting import dependencies, limits, partition, reserved
    from slurm_ext.questions.waiting.times import at

    kind = cause["kind"]
    if kind == "begin":
        yield f"begin:    not before {at(cause['eligible_s'])} (scontrol update StartTime=now)"
    elif kind == "array":
        running = ", ".join(cause["running"]) or "none"
        most = cause["limit"]
        yield f"array:    at most {most} of its tasks at once (%{most}): {running}"
    else:
        yield from {
            "limit": limits.lines,
            "dependency": dependencies.lines,
            "partition": partition.lines,
            "reservation": reserved.reservation_lines,
            "nodes": reserved.node_lines,
        }[kind](cause)
