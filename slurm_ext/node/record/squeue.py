"""Ask the controller for what no environment variable holds: one `squeue` of one job (6 ms).

The job's name comes last and every other field has a fixed place before it, so that no name,
however hostile, can pose as another field. Field names: squeue(1), Slurm 22.05 and later.
"""

from __future__ import annotations

import os

from slurm_ext.node.common.daemonize import output_of
from slurm_ext.node.common.job import clean
from slurm_ext.node.common.slurm_place import command
from slurm_ext.node.record.fields import LARGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from slurm_ext.node.common.config import NodeConfig

_FIELDS = (
    ("job_id", "JobID", 20),
    ("state", "State", 24),
    ("reason", "Reason", 40),
    ("submit_s", "SubmitTime", 24),
    ("start_s", "StartTime", 24),
    ("end_s", "EndTime", 24),
    ("time_limit_s", "TimeLimit", 24),
    ("cpus", "NumCPUs", 12),
    ("num_nodes", "NumNodes", 12),
    ("num_tasks", "NumTasks", 12),
    ("cpus_per_task", "cpus-per-task", 16),
    ("restarts", "RestartCnt", 12),
    ("exit_code", "exit_code", 16),
    ("array_job_id", "ArrayJobID", 20),
    ("array_task_id", "ArrayTaskID", 20),
    ("mem_bytes", "tres-alloc", 400),
    ("ran_s", "TimeUsed", 24),
    ("job_name", "Name", 256),
)
MOST_BYTES = 8 << 20  # of 8,000 tasks of one array
_TEXTS = ("state", "reason")
_CLOCKS = ("time_limit_s", "ran_s")
_TO_RUN_AGAIN = ("COMPLETING", "PENDING", "REQUEUED")
_AHEAD_S = 60.0  # beyond any difference of clocks
GOING_ON = frozenset(
    ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING")
) | {"COMPLETING"}


def query_job(config: NodeConfig, job_id: int, wait_s: float) -> dict[str, Any] | None:
    """The job as the controller has it, None where it does not answer or know the job."""
    program = command("squeue", config.slurm_bin)
    if program is None or wait_s <= 0:
        return None
    env = {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    conf = config.slurm_conf or os.environ.get("SLURM_CONF")
    env |= {"SLURM_CONF": conf} if conf else {}
    wanted = ",".join(f"{name}:{width}" for _, name, width in _FIELDS)
    argv = [program, "-h", "-t", "all", "-j", str(job_id), "-O", wanted]
    listing = output_of(argv, env, wait_s, MOST_BYTES)
    return parse_squeue(listing.decode("utf-8", "replace"), job_id) if listing else None


def is_taken_back(facts: Mapping[str, Any], now_s: float) -> bool:
    """True if the job, whose run has ended, is to run again: Slurm has no end for it then.

    It counts the run that follows already. Seen in epilogs of 22.05 and 24.11. Of a job that it
    found missing and requeues, it tells the start and end that it expects (22.05).
    """
    expected = facts["end_s"] is None or facts["end_s"] > now_s + _AHEAD_S
    return facts["state"] in _TO_RUN_AGAIN and expected


def has_ended_since(facts: Mapping[str, Any], second: int, now_s: float) -> bool:
    """True if the job's newest run started in this second or later, and does not go on.

    Slurm's clock and the node's own are compared: both are the site's.
    """
    runs = facts["state"] in GOING_ON and facts["state"] not in _TO_RUN_AGAIN
    return not runs and second <= (facts["start_s"] or 0) <= now_s + _AHEAD_S


def parse_squeue(text: str, job_id: int) -> dict[str, Any] | None:
    """The job's line as values; None where no line is the job's.

    An array's last task has the array's own id, for which squeue lists all tasks.
    """
    width = _FIELDS[0][2]
    lines = (line for line in text.split("\n") if line[:width].strip() == str(job_id))
    return next(filter(None, map(_facts, lines)), None)


def _facts(text: str) -> dict[str, Any] | None:
    """One fixed-width line as values; None where it is not such a line."""
    cells, start = {}, 0
    for name, _, width in _FIELDS:
        cells[name] = text[start : start + width].strip()
        start += width
    if not cells["state"].isupper():
        return None
    facts = {name: _value(name, cell) for name, cell in cells.items() if name != "job_id"}
    if facts["array_task_id"] is None:  # squeue names every job as its own array
        facts["array_job_id"] = None
    return facts


def _value(name: str, cell: str) -> object:
    if name == "job_name":
        return clean(cell)
    if name in _TEXTS:
        return cell
    if name == "mem_bytes":
        return memory_bytes(cell)
    if name in _CLOCKS:
        return seconds(cell)
    return int(cell) if cell.isdecimal() and len(cell) < 19 else None


def memory_bytes(tres: str) -> int | None:
    """Bytes of `mem=` in an allocated TRES list such as `cpu=2,mem=1.50G,node=1`."""
    words = [word[4:] for word in tres.split(",") if word.startswith("mem=")]
    if not words:
        return None
    power = "KMGTP".find(words[0][-1:]) + 1
    try:
        number = float(words[0][:-1] if power else words[0]) * 1024.0 ** (power or 2)
    except ValueError:
        return None
    return round(number) if 0 <= number <= LARGEST else None


def seconds(limit: str) -> int | None:
    """Seconds of a time as Slurm writes it; None for no limit. core/units.py's twin."""
    days, dash, clock = limit.rpartition("-")
    parts = clock.split(":")
    if len(parts) > 3 or not all(part.isdecimal() for part in [*parts, *([days] if dash else [])]):
        return None
    numbers = [int(part) for part in parts]
    if len(numbers) < 3:
        numbers = [*numbers, 0, 0] if dash else [0, *numbers, 0]
    hours, minutes, rest = numbers[:3]
    total = int(days or 0) * 86400 + hours * 3600 + minutes * 60 + rest
    return total if total <= LARGEST else None
