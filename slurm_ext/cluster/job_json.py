"""`squeue --json` in both of its shapes.

| what           | 22.05                  | 23.11 and later                                        |
|----------------|------------------------|--------------------------------------------------------|
| numbers        | 5, or null where unset | {"set": true, "infinite": false, "number": 5}          |
| state          | "FAILED"               | ["FAILED"], flags such as COMPLETING after it          |
| exit code      | wait status: 768       | {"return_code": {... 3}, "signal": {"id": {...}}}      |
| text           | "" where unset         | the same                                               |

Each reader below takes either.
"""

import json
import os
from typing import Any

from slurm_ext.cluster.records import JobInfo

Json = dict[str, Any]
_PER = ("node", "job", "task", "socket")


def read_jobs(text: str) -> tuple[JobInfo, ...]:
    """Every job of the document. Raises ValueError, KeyError, TypeError or AttributeError."""
    return tuple(_job(job) for job in json.loads(text, strict=False)["jobs"])


def _job(job: Json) -> JobInfo:
    code, by_signal = _exit(job.get("exit_code"))
    return JobInfo(
        job_id=int(job["job_id"]),
        user_name=_text(job, "user_name"),
        user_id=int(job["user_id"]),
        name=_text(job, "name"),
        state=_state(job["job_state"]),
        partition=_text(job, "partition"),
        account=_text(job, "account"),
        work_dir=_text(job, "current_working_directory"),
        submit_time_s=_positive(job, "submit_time"),
        start_time_s=_positive(job, "start_time"),
        end_time_s=_positive(job, "end_time"),
        time_limit_minutes=_positive(job, "time_limit"),
        restarts=_positive(job, "restart_cnt") or 0,
        nodes=_text(job, "nodes"),
        cpus=_positive(job, "cpus"),
        gres=",".join(filter(None, (_text(job, f"tres_per_{per}") for per in _PER))),
        exit_code=code,
        exit_signal=by_signal,
        comment=_text(job, "comment"),
        admin_comment=_text(job, "admin_comment"),
        array_job_id=_positive(job, "array_job_id"),
        het_job_id=_positive(job, "het_job_id"),
        priority=_positive(job, "priority"),
        reason=_text(job, "state_reason"),
        eligible_time_s=_positive(job, "eligible_time"),
        node_count=_positive(job, "node_count"),
        required_nodes=_text(job, "required_nodes"),
        excluded_nodes=_text(job, "excluded_nodes"),
        requeues=bool(job.get("requeue")),
    )


def _text(job: Json, name: str) -> str:
    return str(job.get(name) or "")


def _positive(job: Json, name: str) -> int | None:
    """A number above zero: for times, ids and limits Slurm writes 0 where there is none."""
    return _number(job.get(name)) or None


def _number(value: Any) -> int | None:
    if isinstance(value, dict):
        usable = value.get("set", True) and not value.get("infinite", False)
        return int(value["number"]) if usable else None
    return None if value is None else int(value)


def _state(value: str | list[str]) -> str:
    return value if isinstance(value, str) else value[0]


def _exit(value: Any) -> tuple[int | None, int | None]:
    """Exit code and signal."""
    if isinstance(value, dict):
        by_signal = value.get("signal") or {}
        number = _number(by_signal.get("id", by_signal.get("signal_id")))
        return _number(value.get("return_code")), number or None
    status = _number(value)
    if status is None:
        return None, None
    return os.WEXITSTATUS(status), os.WTERMSIG(status) or None
