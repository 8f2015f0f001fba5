"""Pure: a job of `sacct -P` as records, one a node, as if its nodes had spooled them.

What sacct knows is names, sizes, times and the end; TotalCPU is the CPU time of the whole job, and
is laid equally to its nodes. Where AdminComment has a summary of jobstats, that counts instead.
Energy is sacct_energy.py's.
Columns: sacct(1); states: sacct(1), JOB STATE CODES.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from math import ceil
from typing import Any

from slurm_ext.core.gpu_request import allocated_gpus
from slurm_ext.core.records import Outcome
from slurm_ext.core.units import parse_memory, parse_minutes, parse_tres
from slurm_ext.history.imports import sacct_energy
from slurm_ext.history.imports.jobstats import NoSummaryError, counters_of, summary_of
from slurm_ext.history.store.names import SACCT
from slurm_ext.node.record.fields import pick

NEEDED = ("JobIDRaw", "State", "Submit", "Start", "End")
COLUMNS = (
    *NEEDED,
    "Cluster",
    "JobID",
    "JobName",
    "User",
    "UID",
    "Account",
    "Partition",
    "ExitCode",
    "Timelimit",
    "ElapsedRaw",
    "NCPUS",
    "NNodes",
    "AllocTRES",
    "NodeList",
    "WorkDir",
    "TotalCPU",
    "AdminComment",
    sacct_energy.COLUMN,
)
STEPS, NEVER_RAN, NOT_ENDED = "steps of jobs", "never ran", "not ended yet"
NOT_READ = "jobs with a summary of jobstats that cannot be read (taken without it)"
_ALIVE = {"RUNNING", "PENDING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING"}
_ENDS = {"BOOT_FAIL": "NODE_FAIL", "DEADLINE": "TIMEOUT", "PREEMPTED": "CANCELLED"}
_NONE = {"", "Unknown", "None", "Unlimited", "UNLIMITED", "Partition_Limit", "None assigned"}
_CPU_TIME = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+(?:\.\d+)?)")

Record = dict[str, Any]
Names = Callable[[str], tuple[str, ...]]  # of the nodes in a host list


class NotTakenError(Exception):
    """A line that is no run, and why."""


def records_of(
    line: Mapping[str, str], *, cluster: str, zone: tzinfo | None, names: Names
) -> tuple[list[Record], str | None]:
    """One record for each node, and what could not be read. `zone` None: this machine's.

    Raises NotTakenError for what is no ended run, ValueError where a value is not Slurm's.
    """
    if "." in line["JobIDRaw"]:
        raise NotTakenError(STEPS)
    times, state = _times(line, zone), line["State"].split(" ", 1)[0]
    nodes = names(_nodes(line)) or ("",)
    try:
        summary, comment = summary_of(line.get("AdminComment") or ""), None
    except NoSummaryError:
        summary, comment = {}, NOT_READ
    allocation = _allocation(line, len(nodes))
    base = {
        "times": times,
        "allocation": pick("allocation", allocation),
        "outcome": {"state": _outcome(state), "source": SACCT, **_exit(line.get("ExitCode", ""))},
        "host": {},
        "probe": {},
        "corunners": [],
    }
    used = _cpu_time(line.get("TotalCPU", ""), len(nodes))
    energy = sacct_energy.counters_of(line, len(nodes))
    whose = _identity(line, cluster)
    said = line.get("Cluster") or cluster  # as it stands: earlier imports have this name
    run = f"{SACCT}-{said}-{whose['job_id']}-{times['start_s']:.0f}"
    return [
        {
            **base,
            "record_id": f"{run}-{node}",
            "identity": {**whose, "node": node},
            "counters": [*(counters_of(summary.get(node)) if summary else used), *energy],
        }
        for node in nodes
    ], comment


def _identity(line: Mapping[str, str], cluster: str) -> Record:
    """The job's names; `cluster` as the site spells it, though Slurm says it in small letters."""
    said = line.get("Cluster") or cluster
    array, _, task = line.get("JobID", "").partition("_")
    in_array = array.isdecimal() and task.isdecimal()
    return {
        "cluster": cluster if said == cluster.lower() else said,
        "job_id": _whole(line["JobIDRaw"], "JobIDRaw"),
        "restart": 0,
        "user": line.get("User") or None,
        "uid": int(uid) if (uid := line.get("UID", "")).isdecimal() else None,
        "account": line.get("Account") or None,
        "partition": line.get("Partition") or None,
        "job_name": line.get("JobName") or None,
        "work_dir": line.get("WorkDir") or None,
        "array_job_id": int(array) if in_array else None,
        "array_task_id": int(task) if in_array else None,
    }


def _times(line: Mapping[str, str], zone: tzinfo | None) -> Record:
    submit_s, start_s, end_s = (_moment(line, name, zone) for name in ("Submit", "Start", "End"))
    if line["State"].split(" ", 1)[0] in _ALIVE or (start_s is not None and end_s is None):
        raise NotTakenError(NOT_ENDED)
    if submit_s is None:
        raise ValueError(f"Submit is {line['Submit']!r}")
    if start_s is None or end_s is None or (start_s == end_s and not _nodes(line)):
        raise NotTakenError(NEVER_RAN)  # cancelled while it waited
    if not submit_s <= start_s <= end_s:
        raise ValueError(f"Submit, Start and End are out of order: {_three(line)}")
    elapsed_s = end_s - start_s
    if (ran := line.get("ElapsedRaw", "")).isdecimal():  # without the time that it was suspended
        elapsed_s = min(elapsed_s, float(ran))
    return {"submit_s": submit_s, "start_s": start_s, "end_s": end_s, "elapsed_s": elapsed_s}


def _nodes(line: Mapping[str, str]) -> str:
    nodes = line.get("NodeList", "")
    return "" if nodes in _NONE else nodes


def _three(line: Mapping[str, str]) -> str:
    return ", ".join(line[name] for name in ("Submit", "Start", "End"))


def _moment(line: Mapping[str, str], name: str, zone: tzinfo | None) -> float | None:
    """Seconds since the epoch; `SLURM_TIME_FORMAT=%s` prints just these."""
    text = line[name]
    if text in _NONE:
        return None
    if text.isdecimal():
        return float(text)
    try:
        return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{name} is {text!r}: expected 2026-01-31T08:00:00 or seconds") from None


def _allocation(line: Mapping[str, str], nodes: int) -> Record:
    """Of one node: what the whole job had, divided by its nodes."""
    tres = parse_tres(line.get("AllocTRES") or "")
    cpus = line.get("NCPUS") or tres.get("cpu")
    gpus = allocated_gpus(line["AllocTRES"]) if tres else None
    limit = line.get("Timelimit", "")
    minutes = None if limit in _NONE else parse_minutes(limit)
    return {
        "cpus": None if cpus is None else ceil(_whole(cpus, "NCPUS") / nodes),
        "num_nodes": _whole(line["NNodes"], "NNodes") if line.get("NNodes") else nodes,
        "mem_bytes": parse_memory(tres["mem"]) // nodes if "mem" in tres else None,
        "gpus": None if gpus is None else ceil(gpus / nodes),
        "time_limit_s": None if minutes is None else minutes * 60,
    }


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{name} is {text!r}: expected a whole number")
    return int(text)


def _outcome(state: str) -> str:
    end = _ENDS.get(state, state)
    return end if end in Outcome.__members__ else Outcome.UNKNOWN.value


def _exit(text: str) -> Record:
    """`3:0` is code and signal."""
    code, _, signal = text.partition(":")
    if not (code.isdecimal() and signal.isdecimal()):
        return {"exit_code": None, "signal": None}
    return {"exit_code": int(code), "signal": int(signal)}


def _cpu_time(text: str, nodes: int) -> list[Record]:
    """TotalCPU, [days-[hours:]]minutes:seconds; none where Slurm gathered none."""
    match = _CPU_TIME.fullmatch(text)
    if match is None:
        return []
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    total_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if total_s == 0:  # JobAcctGatherType=none says so of every job
        return []
    source = f"{SACCT}/TotalCPU"
    return [{"name": "cpu_user", "unit": "s", "source": source, "value": total_s / nodes}]
