"""Jobs that a waiting job depends on, and what became of them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_ext.questions.waiting.holders import named, until
from slurm_ext.slurm.records import JobInfo

MOST_SHOWN = 8
_ITEM = re.compile(
    r"(?P<how>[a-z]+)(?P<ids>(?::[0-9]+(?:_(?:\*|[0-9]+))?(?:\+[0-9]+)?)*)"
    r"(?:\((?P<met>\w+)\))?"
)
_ID = re.compile(r":([0-9]+)(?:_(\*|[0-9]+))?")
_WANTED = {
    "after": "has to start",
    "afterany": "has to end",
    "afterok": "has to end well",
    "afternotok": "has to fail",
    "aftercorr": "has to end well, task by task",
    "afterburstbuffer": "has to end, its burst buffer too",
    "singleton": "has to end: one job of this name and user runs at a time",
}


def dependency_of(job: JobInfo, jobs: Sequence[JobInfo]) -> dict[str, Any] | None:
    """`{kind, any, jobs: [{condition, met, job, state, user, name, end_s}]}`; None: it has none.

    `any`: one of them is enough. `met`: Slurm's word: unfulfilled, fulfilled, failed, or null.
    """
    items = list(_ITEM.finditer(job.dependency))
    rows = [row for item in items for row in _rows(item, job, jobs)]
    if not rows:
        return None
    return {"kind": "dependency", "any": "?" in job.dependency, "jobs": rows}


def _rows(item: re.Match[str], job: JobInfo, jobs: Sequence[JobInfo]) -> Iterator[dict[str, Any]]:
    met, how = item["met"], item["how"]
    if how == "singleton":
        for other in jobs:
            same = (other.name, other.user_id) == (job.name, job.user_id)
            if same and other.job_id < job.job_id and not other.ended:
                yield _row(how, met, other.named, other)
        return
    for number, task in _ID.findall(item["ids"]):
        others = [other for other in jobs if _is_named(other, int(number), task)]
        yield from (_row(how, met, other.named, other) for other in others)
        if not others:
            yield _row(how, met, f"{number}_{task}" if task and task != "*" else number, None)


def _is_named(job: JobInfo, number: int, task: str) -> bool:
    if task and task != "*":
        return job.array_job_id == number and job.array_task_id == int(task)
    return number in (job.job_id, job.array_job_id)


def _row(how: str, met: str | None, name: str, other: JobInfo | None) -> dict[str, Any]:
    row: dict[str, Any] = {"condition": how, "met": met, "job": name, "state": None}
    if other is None:
        return {**row, "user": None, "name": None, "end_s": None}
    running = other.nodes and not other.ended
    who = {"state": other.state, "user": other.user_name, "name": other.name}
    return {**row, **who, "end_s": other.end_time_s if running else None}


def lines(cause: Mapping[str, Any]) -> Iterator[str]:
    """For people: a line for each job that has to come to something."""
    rows = cause["jobs"]
    if cause["any"]:
        yield "needs:    one of these is enough"
    for row in rows[:MOST_SHOWN]:
        who = named(row) if row["name"] is not None else f"job {row['job']}"
        yield f"needs:    {who} {_WANTED.get(row['condition'], row['condition'])}: {_is_so(row)}"
    if len(rows) > MOST_SHOWN:
        yield f"needs:    and {len(rows) - MOST_SHOWN} more (--json lists them)"


def _is_so(row: Mapping[str, Any]) -> str:
    state = (
        "Slurm knows it no longer, or hides it" if row["state"] is None else f"it is {row['state']}"
    )
    if row["met"] == "failed":
        return f"{state}, so that this will never be"
    if row["met"] == "fulfilled":
        return f"{state}, as it should be"
    return f"{state}{until(row['end_s'])}"
