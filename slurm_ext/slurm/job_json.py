"""Parser of `squeue --json`, in both of its forms.

| what           | 22.05                  | 23.11 and later                                        |
|----------------|------------------------|--------------------------------------------------------|
| numbers        | 5, or null where unset | {"set": true, "infinite": false, "number": 5}          |
| state          | "FAILED"; "COMPLETING" | ["FAILED"]; ["FAILED", "COMPLETING"]                   |
| exit code      | wait status: 768       | {"return_code": {... 3}, "signal": {"id": {...}}}      |
| text           | "" where unset         | the same                                               |
| tres_per_task  | GPUs                   | CPUs too: "cpu=2" where --cpus-per-task was given      |

Each function below reads both.
"""

import json
import os
from typing import Any

from slurm_ext.core.gpu_request import UNITS, allocated_gpus, count_gpus
from slurm_ext.core.units import MIB, parse_memory, parse_tres
from slurm_ext.slurm.records import JobInfo

Json = dict[str, Any]
MOST_STATUS = 0xFFFF  # of wait(2)
_FLAGS = ("COMPLETING", "CONFIGURING", "RESIZING")  # one word for both shapes: 22.05's order


def read_jobs(text: str) -> tuple[JobInfo, ...]:
    """Parse all jobs. Raises ValueError, KeyError, TypeError or AttributeError."""
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
        command=_text(job, "command"),
        submit_time_s=_positive(job, "submit_time"),
        start_time_s=_positive(job, "start_time"),
        end_time_s=_positive(job, "end_time"),
        time_limit_minutes=_positive(job, "time_limit"),
        restarts=_positive(job, "restart_cnt") or 0,
        nodes=_text(job, "nodes"),
        cpus=_positive(job, "cpus"),
        gres=_gres(job),
        exit_code=code,
        exit_signal=by_signal,
        comment=_text(job, "comment"),
        admin_comment=_text(job, "admin_comment"),
        array_job_id=_positive(job, "array_job_id"),
        het_job_id=_positive(job, "het_job_id"),
        priority=_positive(job, "priority"),
        reason=_text(job, "state_reason"),
        reason_detail=_text(job, "state_description"),
        eligible_time_s=_positive(job, "eligible_time"),
        node_count=_positive(job, "node_count"),
        required_nodes=_text(job, "required_nodes"),
        excluded_nodes=_text(job, "excluded_nodes"),
        requeues=bool(job.get("requeue")),
        nice=_signed(_number(job.get("nice"))),
        qos=_text(job, "qos"),
        reservation=_text(job, "resv_name"),
        dependency=_text(job, "dependency"),
        gpus=_gpus(job),
        mem_mib=_mem_mib(job),
        tasks=_positive(job, "tasks"),
        array_task_id=_task(job),
        array_tasks=_text(job, "array_task_string"),
        array_most=_positive(job, "array_max_tasks"),
    )


def _gres(job: Json) -> str:
    """Requests beside CPUs, which have fields of their own."""
    items = (item for per in UNITS for item in _text(job, f"tres_per_{per}").split(","))
    return ",".join(item for item in items if item and not item.startswith(("cpu=", "cpu:")))


def _signed(value: int | None) -> int:
    """Nice as a signed number: 22.05 writes -1 as 2^32 - 1, and 0 as null."""
    number = value or 0
    return number - (1 << 32) if number >= 1 << 31 else number


def _task(job: Json) -> int | None:
    return _number(job.get("array_task_id")) if _positive(job, "array_job_id") else None


def _gpus(job: Json) -> int | None:
    """GPUs as Slurm adds them up (AccountingStorageTRES), else as the request counts them."""
    if summed := allocated_gpus(_text(job, "tres_req_str")):
        return summed
    nodes, tasks = (_positive(job, name) or 1 for name in ("node_count", "tasks"))
    lists = {unit: _text(job, f"tres_per_{unit}") for unit in UNITS}
    return count_gpus(lists, nodes=nodes, tasks=tasks) or None


def _mem_mib(job: Json) -> int | None:
    text = parse_tres(_text(job, "tres_req_str")).get("mem")
    return parse_memory(text) // MIB or None if text else None


def _text(job: Json, name: str) -> str:
    return str(job.get(name) or "")


def _positive(job: Json, name: str) -> int | None:
    """A number above 0, or None: of times, ids and limits Slurm writes 0 for none."""
    return _number(job.get(name)) or None


def _number(value: Any) -> int | None:
    if isinstance(value, dict):
        usable = value.get("set", True) and not value.get("infinite", False)
        return int(value["number"]) if usable else None
    return None if value is None else int(value)


def _state(value: str | list[str]) -> str:
    """State as 22.05 writes it: a requeued or ended job is COMPLETING until its processes end."""
    words = [value] if isinstance(value, str) else value
    return next((flag for flag in _FLAGS if flag in words), words[0])


def _exit(value: Any) -> tuple[int | None, int | None]:
    """Exit code and signal."""
    if isinstance(value, dict):
        by_signal = value.get("signal") or {}
        number = _number(by_signal.get("id", by_signal.get("signal_id")))
        code = _number(value.get("return_code"))
        return (0 if code is None and number else code), number or None  # a signal leaves none
    status = _number(value)
    if status is None or status > MOST_STATUS:  # of an allocation that was revoked: 0xfffffffe
        return None, None
    return os.WEXITSTATUS(status), os.WTERMSIG(status) or None
