"""Runs of history.db as jobs whose durations are learnt: who, what, how much was asked for.

A run is one job and restart, whatever number of nodes recorded it. Cancelled jobs count too: how
long a job holds its nodes is asked, not how long it would have liked to.
"""

from collections.abc import Iterable, Mapping
from math import isfinite, log
from typing import Any

from slurm_ext.model.duration_state import Plan, Submission
from slurm_ext.training.duration import Past

NAMES = ("user", "job_name", "account", "partition", "gpus", "time_limit_s")
NUMBERS = ("cpus", "num_nodes", "gpus", "mem_bytes", "time_limit_s")
SITE = Plan(
    levels=(
        ("user", "job_name", "gpus"),
        ("user", "job_name"),
        ("user", "partition", "time_limit_s"),
        ("user",),
        ("job_name",),
        ("account",),
        ("partition", "gpus"),
        (),
    ),
    numbers=tuple(f"log_{name}" for name in NUMBERS),
)


def submission(run: Mapping[str, Any]) -> Submission | None:
    """What was known of a run when it was submitted; None where that moment is not recorded."""
    submit_s = run.get("submit_s")
    if submit_s is None or not isfinite(submit_s):
        return None
    names = {name: "" if run.get(name) is None else str(run[name]) for name in NAMES}
    numbers = {f"log_{name}": _log(run.get(name)) for name in NUMBERS}
    return Submission(float(submit_s), names, numbers)


def pasts(runs: Iterable[Mapping[str, Any]]) -> list[Past]:
    """Jobs by submission, of rows of `history.queries.runs` in any order.

    Left out: runs without a submission, an end, or a duration of at least 0 s, and ends before the
    submission (a clock that jumped). A row without its duration is told by start and end.
    """
    jobs: dict[tuple[Any, ...], Past] = {}
    for run in runs:
        asked, lasted = submission(run), _lasted(run)
        if asked is None or lasted is None or run["end_s"] < asked.submit_s:
            continue
        key = tuple(run.get(name) for name in ("cluster", "job_id", "restart"))
        known = jobs.get(key)
        if known is None or (known.end_s or 0.0) < run["end_s"]:
            jobs[key] = Past(asked, float(run["end_s"]), lasted)
    return sorted(jobs.values(), key=lambda job: job.asked.submit_s)


def _lasted(run: Mapping[str, Any]) -> float | None:
    end_s, start_s, lasted = run.get("end_s"), run.get("start_s"), run.get("elapsed_s")
    if end_s is None:
        return None
    if lasted is None and start_s is not None:
        lasted = end_s - start_s
    return float(lasted) if lasted is not None and isfinite(lasted) and lasted >= 0 else None


def _log(value: float | None) -> float | None:
    return log(value) if value is not None and isfinite(value) and value > 0 else None
