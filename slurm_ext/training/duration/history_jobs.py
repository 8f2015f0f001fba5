"""Reads runs of history.db as jobs whose durations are learned.

A run is one job and restart, whatever number of nodes recorded it. Cancelled jobs count too: the
model predicts how long a job holds its nodes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from slurm_ext.model.duration.query import query_of_run, runtime_s
from slurm_ext.training.duration.fit import FinishedJob


def finished_jobs(runs: Iterable[Mapping[str, Any]]) -> list[FinishedJob]:
    """Jobs by submission, of rows of `history.queries.runs` in any order.

    Left out: runs without a submission, an end, or a duration of at least 0 s, and ends before the
    submission (a clock that jumped). A row without its duration has end less start.
    """
    jobs: dict[tuple[Any, ...], FinishedJob] = {}
    for run in runs:
        query, elapsed_s = query_of_run(run), runtime_s(run)
        if query is None or elapsed_s is None:
            continue
        key = tuple(run.get(name) for name in ("cluster", "job_id", "restart"))
        known = jobs.get(key)
        if known is None or (known.end_s or 0.0) < run["end_s"]:
            jobs[key] = FinishedJob(query.submission(), float(run["end_s"]), elapsed_s)
    return sorted(jobs.values(), key=lambda job: job.asked.submit_s)
