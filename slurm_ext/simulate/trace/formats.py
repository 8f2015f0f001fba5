"""The formats of traces: how each is recognised, and how a line of it becomes a row.

| format | what | source |
|---|---|---|
| table | CSV with the names of the column dictionary; Philly's jobs are one | columns.py |
| sacct | `sacct -aXP -o` and the columns below | Slurm |
| swf | Standard Workload Format: 18 numbers a line | Parallel Workloads Archive |
| alibaba | pods of cluster-trace-gpu-v2023 | alibaba/clusterdata |
| pollux | workloads of the Pollux artifact; durations from its tables | pollux.py |

sacct columns: JobID,Submit,Eligible,Start,End,AllocTRES,AllocCPUS,User,Account,Partition,Timelimit,
QOS,ReqTRES (whose GPU model is the one asked for); needed are JobID, Submit, Start, End, AllocTRES.
CPUs are AllocCPUS, or NCPUS, or those of AllocTRES.
A job enters the queue once it is submitted and eligible to start.
What a reader answers: row.Read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan
from pathlib import Path

from slurm_ext.core.gpu_request import allocated_gpus, asked_type
from slurm_ext.core.units import parse_minutes, parse_tres
from slurm_ext.simulate.trace import pollux
from slurm_ext.simulate.trace.row import (
    CENSORED,
    NEVER_RAN,
    PART_OF_GPU,
    STILL_RUNS,
    Fields,
    Read,
    TraceRow,
    count,
    number,
    optional_s,
)
from slurm_ext.simulate.trace.times import Clock

SWF_FIELDS = (
    "job",
    "submit",
    "wait",
    "run",
    "procs",
    "cpu_time",
    "memory",
    "req_procs",
    "req_time",
    "req_memory",
    "status",
    "user",
    "group",
    "exe",
    "queue",
    "partition",
    "preceding",
    "think",
)
ALIASES = {
    "job_id": "job",
    "submit_time": "submit_s",
    "num_gpus": "gpus",
    "procs": "gpus",
    "req_time_s": "limit_s",
    "partition": "vc",
}

_WHOSE = ("job", "user", "vc", "account", "qos")
_WANTED = ("submit_s", "eligible_s", "gpus", "cpus", "gpu_type", "limit_s", "estimate_s")
_TIMES = ("start_s", "start_time", "end_s", "end_time", "duration_s", "wait_s", "queue_s", "jct_s")
_OUTCOME = ("state", "status", "exit_code", "restarts", "censored")
ENDS = {*_WHOSE, *_WANTED, *_TIMES, *_OUTCOME}
"""Columns of a table that are read apart, and those that only a job's end tells."""
_SACCT_WHOSE = ("JobName", "Group", "UID", "GID", "WCKey", "Comment", "WorkDir", "SubmitLine")
_SACCT_REQUEST = ("ReqCPUS", "ReqMem", "ReqNodes", "ReqTRES", "Constraints", "Reservation")
CHANGE = " (a clock change? --timezone ZONE, or export with SLURM_TIME_FORMAT=%s)"
CANCELLED = "5"  # SWF's status


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format. `any_of`: one column of each group has to be there."""

    name: str
    any_of: tuple[tuple[str, ...], ...]
    reader: Callable[[Path], Read]  # of one file
    delimiter: str = ","
    asked: frozenset[str] | None = None  # further columns that a job's submission tells; None: all

    def tells(self, column: str) -> bool:
        """True if a further column is known when a job waits."""
        return column not in ENDS if self.asked is None else column in self.asked


def table(fields: Fields, clock: Clock) -> TraceRow | str:
    """A line under the column dictionary's names."""
    return TraceRow(
        job=fields["job"],
        submit_s=_waits_since(clock.seconds(fields["submit_s"]), fields.get("eligible_s"), clock),
        duration_s=number(fields["duration_s"], "duration_s"),
        gpus=count(fields["gpus"], "gpus"),
        cpus=count(fields.get("cpus") or "0", "cpus"),
        user=fields.get("user", ""),
        vc=fields.get("vc", ""),
        account=fields.get("account", ""),
        gpu_type=fields.get("gpu_type", ""),
        qos=fields.get("qos", ""),
        limit_s=optional_s(fields.get("limit_s"), "limit_s"),
        estimate_s=optional_s(fields.get("estimate_s"), "estimate_s"),
        note=CENSORED if fields.get("censored") == "1" else None,
    )


def sacct(fields: Fields, clock: Clock) -> TraceRow | str:
    """A job of `sacct -P`; its steps are no jobs."""
    if "." in fields["JobID"]:
        return "left out: steps of jobs"
    if fields["Start"] in ("Unknown", "None", ""):
        return NEVER_RAN
    if fields["End"] in ("Unknown", "None", ""):
        return STILL_RUNS
    submit_s = clock.seconds(fields["Submit"])
    start_s = clock.seconds(fields["Start"], not_before=submit_s)
    end_s = clock.seconds(fields["End"], not_before=start_s)
    if start_s < submit_s:
        raise ValueError(f"Start {fields['Start']} is before Submit {fields['Submit']}{CHANGE}")
    if end_s < start_s:
        raise ValueError(f"End {fields['End']} is before Start {fields['Start']}{CHANGE}")
    return TraceRow(
        job=fields["JobID"],
        submit_s=min(_waits_since(submit_s, fields.get("Eligible"), clock), start_s),
        duration_s=end_s - start_s,
        gpus=allocated_gpus(fields["AllocTRES"]),
        cpus=_cpus(fields),
        user=fields.get("User", ""),
        vc=fields.get("Partition", ""),
        account=fields.get("Account", ""),
        gpu_type=asked_type(fields.get("ReqTRES", "")),
        qos=fields.get("QOS", ""),
        limit_s=_timelimit(fields.get("Timelimit", "")),
    )


def swf(fields: Fields, clock: Clock) -> TraceRow | str:
    """A line of the Standard Workload Format; processors count as GPUs do. -1: not known."""
    run_s = number(fields["run"], "run time (field 4)")
    held = number(fields["procs"], "processors")
    if run_s == -1 or (run_s == 0 and (fields["status"] == CANCELLED or held <= 0)):
        return NEVER_RAN
    procs = fields["procs"] if held > 0 else fields["req_procs"]
    return TraceRow(
        job=fields["job"],
        submit_s=clock.seconds(fields["submit"]),
        duration_s=run_s,
        gpus=max(0, int(number(procs, "processors (field 5 or 8)"))),
        user=fields["user"],
        vc=fields["queue"],
        account=fields["group"],
        limit_s=optional_s(fields["req_time"], "requested time (field 9)"),
    )


def alibaba(fields: Fields, clock: Clock) -> TraceRow | str:
    """A pod: it runs from scheduled_time to deletion_time."""
    if not fields["scheduled_time"]:
        return NEVER_RAN
    if not fields["deletion_time"]:
        return STILL_RUNS
    start_s, end_s = (clock.seconds(fields[name]) for name in ("scheduled_time", "deletion_time"))
    gpus = count(fields["num_gpu"], "num_gpu")
    part = gpus == 1 and count(fields.get("gpu_milli") or "1000", "gpu_milli") < 1000
    censored = CENSORED if fields.get("pod_phase") == "Running" else None
    if end_s < start_s:
        raise ValueError(f"deletion_time {end_s:g} is before scheduled_time {start_s:g}")
    return TraceRow(
        job=fields["name"],
        submit_s=clock.seconds(fields["creation_time"]),
        duration_s=end_s - start_s,
        gpus=gpus,
        cpus=-(-count(fields["cpu_milli"], "cpu_milli") // 1000),
        vc=fields.get("gpu_spec", ""),
        note=PART_OF_GPU if part else censored,
    )


def _cpus(fields: Fields) -> int:
    """CPUs by sacct's column of them, under either of its names, else by AllocTRES."""
    named = fields.get("AllocCPUS") or fields.get("NCPUS")
    return count(named or parse_tres(fields["AllocTRES"]).get("cpu", "0"), "AllocCPUS")


def _waits_since(submit_s: float, eligible: str | None, clock: Clock) -> float:
    """Time since when it waits; its dependency, hold or begin time may have kept it until then."""
    if not eligible or eligible in ("Unknown", "None"):
        return submit_s
    return max(submit_s, clock.seconds(eligible))


def _timelimit(text: str) -> float:
    if text in ("", "Partition_Limit", "Unknown"):
        return nan
    minutes = parse_minutes(text)
    return nan if not minutes else minutes * 60


FORMATS: Mapping[str, Format] = {
    "table": Format(
        name="table",
        any_of=(
            ("job", "job_id"),
            ("submit_s", "submit_time"),
            ("duration_s",),
            ("gpus", "num_gpus", "procs"),
        ),
        reader=lambda _path: table,
    ),
    "sacct": Format(
        name="sacct",
        any_of=(("JobID",), ("Submit",), ("Start",), ("End",), ("AllocTRES",)),
        reader=lambda _path: sacct,
        delimiter="|",
        asked=frozenset((*_SACCT_WHOSE, *_SACCT_REQUEST)),
    ),
    "alibaba": Format(
        name="alibaba",
        any_of=(
            ("name",),
            ("cpu_milli",),
            ("num_gpu",),
            ("creation_time",),
            ("deletion_time",),
            ("scheduled_time",),
        ),
        reader=lambda _path: alibaba,
        asked=frozenset(("cpu_milli", "memory_mib", "gpu_milli", "gpu_spec", "qos")),
    ),
    "pollux": Format(
        name="pollux",
        any_of=(("name",), ("time",), ("application",), ("num_replicas",), ("batch_size",)),
        reader=pollux.reader,
        asked=frozenset(("application", "num_replicas", "batch_size")),
    ),
    "swf": Format(
        name="swf",
        any_of=(),
        reader=lambda _path: swf,
        delimiter=" ",
        asked=frozenset(("req_procs", "req_memory", "exe", "partition", "preceding", "think")),
    ),
}
