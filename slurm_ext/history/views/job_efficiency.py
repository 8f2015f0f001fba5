"""Finished jobs with how much of what they held was used, newest first: a row a job, not a node."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from slurm_ext.core.stalls.waited_share import waited_share
from slurm_ext.history.ingest.rows import inflated
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

_COUNTERS = """
SELECT r.*, l.samples_per_s, l.whole_samples_per_s, l.workers, p.summaries AS probe,
    sum(CASE WHEN n.name IN ('cpu_user', 'cpu_system') THEN c.value END) AS cpu_s,
    max(CASE n.name WHEN 'mem_held_peak' THEN c.value END) AS held,
    max(CASE n.name WHEN 'mem_peak' THEN c.value END) AS peak,
    avg(CASE n.name WHEN 'gpu_job_util' THEN c.value END) AS own_gpu,
    avg(CASE n.name WHEN 'gpu_util' THEN c.value END) AS gpu
FROM runs r LEFT JOIN loader_runs l ON l.run = r.id LEFT JOIN probes p ON p.run = r.id
    LEFT JOIN counters c ON c.run = r.id LEFT JOIN counter_names n ON n.id = c.counter
WHERE r.job_id = ? AND r.cluster = ?
    AND r.restart = (SELECT max(restart) FROM runs WHERE job_id = ? AND cluster = ?)
GROUP BY r.id ORDER BY r.node"""
_SAME = (
    "cluster",
    "job_id",
    "restart",
    "array_job_id",
    "array_task_id",
    "user",
    "account",
    "partition",
    "job_name",
    "time_limit_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs; empty is no condition. `since_s`: ended since, seconds since the epoch."""

    user: str | None = None
    partition: str | None = None
    since_s: float | None = None
    states: Sequence[str] = ()
    nodes: Sequence[str] = ()
    jobs: Sequence[tuple[int, int | None]] = ()  # ids (an array's stands for its tasks), and tasks

    def sql(self) -> tuple[str, list[Any]]:
        """The runs of such jobs, newest end first, with the values to bind."""
        wanted = {
            "user = ?": self.user,
            "partition = ?": self.partition,
            "end_s >= ?": self.since_s,
        }
        values_by_test = {test: value for test, value in wanted.items() if value is not None}
        tests, values = ["end_s IS NOT NULL", *values_by_test], list(values_by_test.values())
        for column, chosen in (("state", self.states), ("node", self.nodes)):
            if chosen:
                tests.append(f"{column} IN ({', '.join('?' * len(chosen))})")
                values += chosen
        if self.jobs:
            tests.append(f"({' OR '.join(map(_named, self.jobs))})")
        where = " AND ".join(tests)
        return (
            f"SELECT cluster, job_id FROM runs WHERE {where} ORDER BY end_s DESC, id DESC",
            values,
        )


def _named(job: tuple[int, int | None]) -> str:
    """A test for one job; its numbers are whole, so that no text gets into the query."""
    number, task = job
    if task is not None:
        return f"array_job_id = {number:d} AND array_task_id = {task:d}"
    return f"job_id = {number:d} OR array_job_id = {number:d}"


def newest_jobs(history: History, chosen: JobFilter, most: int) -> list[dict[str, Any]]:
    """At most so many jobs, each by its last start. Raises HistoryError.

    Shares are 0 to 1, None where one was not measured: `time` of the limit, `cpu` of the CPUs'
    time, `mem` of the memory on the fullest node, `gpu` busy, `wait` of the training's time that
    waited for data.
    """
    conn = history.conn
    with explaining(history.path):
        jobs = (job for key in _keys(conn, chosen) if (job := _job(conn, *key, chosen)))
        return list(islice(jobs, most))


def _keys(conn: sqlite3.Connection, chosen: JobFilter) -> Iterator[tuple[str, int]]:
    """Cluster and id of each job once."""
    counted_tasks = set()
    sql, values = chosen.sql()
    for cluster, job_id in conn.execute(sql, values):
        if (cluster, job_id) not in counted_tasks:
            counted_tasks.add((cluster, job_id))
            yield cluster, job_id


def _job(
    conn: sqlite3.Connection, cluster: str, job_id: int, chosen: JobFilter
) -> dict[str, Any] | None:
    """One job; None where its last start ended in another state than is asked for."""
    counters = conn.execute(_COUNTERS, (job_id, cluster) * 2)
    names = [column[0] for column in counters.description]
    rows = [dict(zip(names, row, strict=True)) for row in counters]
    rows = [{**row, "probe": inflated(row["probe"])} for row in rows]
    job = efficiency_of(rows)
    return None if chosen.states and job["state"] not in chosen.states else job


def efficiency_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The job of these rows, one of each of its nodes."""
    first = rows[0]
    state = next((row["state"] for row in rows if row["state"] != "COMPLETED"), first["state"])
    elapsed_s = max((row["elapsed_s"] or 0.0 for row in rows), default=0.0) or None
    return {
        **{name: first[name] for name in _SAME},
        "state": state,
        "exit_code": first["exit_code"],
        "nodes": [row["node"] for row in rows],
        "cpus": _total(rows, "cpus"),
        "gpus": _total(rows, "gpus"),
        "end_s": max(row["end_s"] or 0.0 for row in rows),
        "elapsed_s": elapsed_s,
        "time": _share(elapsed_s, first["time_limit_s"]),
        "cpu": _cpu(rows),
        "mem": max(filter(None, map(_memory, rows)), default=None),
        "gpu": _mean([_either(row["own_gpu"], row["gpu"]) for row in rows if row["gpus"]]),
        "wait": max(filter(None, map(_wait, rows)), default=None),
        "samples_per_s": _rate(rows),
        "workers": next((row["workers"] for row in rows if row["workers"] is not None), None),
    }


def _cpu(rows: Sequence[Mapping[str, Any]]) -> float | None:
    core_s = [(row["cpu_s"], (row["cpus"] or 0) * (row["elapsed_s"] or 0.0)) for row in rows]
    if any(used is None for used, _ in core_s):
        return None
    return _share(sum(used for used, _ in core_s), sum(all_s for _, all_s in core_s))


def _memory(row: Mapping[str, Any]) -> float | None:
    """Share that its processes held, where the kernel tells that apart from cached files."""
    return _share(_either(row["held"], row["peak"]), row["mem_bytes"])


def _wait(row: Mapping[str, Any]) -> float | None:
    return waited_share((row.get("probe") or {}).get("summaries") or ())


def _rate(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Of the whole job: each node's record has that of the trainings that it saw."""
    rates = [_either(row["whole_samples_per_s"], row["samples_per_s"]) for row in rows]
    return max(filter(None, rates), default=None)


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _either(one: Any, other: Any) -> Any:
    return other if one is None else one


def _mean(values: Sequence[float | None]) -> float | None:
    counted = [value for value in values if value is not None]
    return sum(counted) / len(counted) if counted else None


def _total(rows: Sequence[Mapping[str, Any]], name: str) -> int | None:
    counted = [row[name] for row in rows if row[name] is not None]
    return sum(counted) if counted else None
