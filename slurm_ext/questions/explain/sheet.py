"""A job's use of what it asked for, all of its nodes together: `seff`'s lines, and more."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_ext.questions.explain.used import counted

MOST_NODES = 4  # by name
_OF_JOB = ("cluster", "job_id", "restart", "array_job_id", "array_task_id", "user", "account")
_MORE = ("partition", "job_name", "state", "exit_code", "nodes", "samples_per_s", "workers", "wait")
_SHARES = ("end_s", "elapsed_s", "time_limit_s", "time", "cpus", "cpu", "gpus", "gpu", "mem")
_SUMS = ("read_bytes", "written_bytes", "gpu_energy_j", "node_energy_j")


def sheet_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The last start of a job; None: there is none, or these are tasks of an array.

    Amounts with shares of 0 to 1 beside them (`cpus_used` and `cpu` of `cpus`, ...); memory is that
    of the fullest node, `gpu_mem_used_bytes` of the fullest GPU; what was not measured is None.
    """
    from slurm_ext.history.views.job_efficiency import efficiency_of

    if len({run["job_id"] for run in runs}) != 1:
        return None
    rows = [counted(run) for run in last_start(runs)]
    job, first = efficiency_of(rows), rows[0]
    fullest = max(rows, key=_fullness)
    return {
        **{name: job[name] for name in (*_OF_JOB, *_MORE, *_SHARES)},
        "signal": first["signal"],
        "submit_s": first["submit_s"],
        "start_s": first["start_s"],
        "queued_s": _queued_s(first),
        "cpus_used": None if job["cpu"] is None else job["cpu"] * job["cpus"],
        "mem_bytes": fullest["mem_bytes"],
        "mem_used_bytes": fullest["mem_used_bytes"],
        "gpu_models": sorted({row["node_gpu_model"] for row in rows if row["gpus"]} - {None}),
        "gpu_mem_used_bytes": max(_numbers(rows, "gpu_mem_used_bytes"), default=None),
        **{name: sum(_numbers(rows, name)) if _numbers(rows, name) else None for name in _SUMS},
    }


def last_start(runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The runs of a job's newest restart, one of each node."""
    last = max(run["restart"] for run in runs)
    return [run for run in runs if run["restart"] == last]


def _fullness(row: Mapping[str, Any]) -> tuple[float, float]:
    used, limit = row["mem_used_bytes"] or 0.0, row["mem_bytes"]
    return (used / limit if limit else 0.0), used


def _queued_s(row: Mapping[str, Any]) -> float | None:
    """Time in the queue; clocks may differ by a second."""
    started = row["start_s"] is not None and row["submit_s"] is not None
    return max(0.0, row["start_s"] - row["submit_s"]) if started else None


def _numbers(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [row[name] for row in rows if row[name] is not None]


def lines(sheet: Mapping[str, Any]) -> Iterator[str]:
    """For people: one fact a line."""
    yield f"job:      {_who(sheet)}"
    yield f"state:    {_end(sheet)}"
    yield f"time:     {_time(sheet)}"
    for name, text in (("cpus", _cpus(sheet)), ("memory", _memory(sheet)), ("gpus", _gpus(sheet))):
        if text:
            yield f"{name + ':':<9} {text}"
    yield from _disk(sheet)


def _who(sheet: Mapping[str, Any]) -> str:
    from slurm_ext.questions.explain.named import name_of
    from slurm_ext.report.formatting import name

    places = [f"{n} {sheet[n]}" for n in ("account", "partition") if sheet[n]]
    where = f" ({', '.join(places)})" if places else ""
    nodes = sheet["nodes"]
    more = f" and {len(nodes) - MOST_NODES} more" if len(nodes) > MOST_NODES else ""
    on = f"{', '.join(nodes[:MOST_NODES])}{more}"
    return f"{name_of(sheet)}, {sheet['user']}'s {name(sheet['job_name'])}{where} on {on}"


def _end(sheet: Mapping[str, Any]) -> str:
    from slurm_ext.questions.waiting.times import at

    code = "" if sheet["exit_code"] is None else f", exit code {sheet['exit_code']}"
    signal = f", signal {sheet['signal']}" if sheet["signal"] else ""
    return f"{sheet['state']}{code}{signal}, ended {at(sheet['end_s'])}"


def _time(sheet: Mapping[str, Any]) -> str:
    took = _clock(sheet["elapsed_s"])
    limit = f" of {_clock(sheet['time_limit_s'])}" if sheet["time_limit_s"] else ""
    queued = sheet["queued_s"]
    before = "" if queued is None else f"; {_clock(queued)} in the queue before"
    return f"{took}{limit}{_share(sheet['time'])}{before}"


def _cpus(sheet: Mapping[str, Any]) -> str:
    if sheet["cpus"] is None:
        return ""
    if sheet["cpus_used"] is None:
        return f"{sheet['cpus']}, use not measured"
    return f"{sheet['cpus_used']:.1f} of {sheet['cpus']} busy{_share(sheet['cpu'])}"


def _memory(sheet: Mapping[str, Any]) -> str:
    from slurm_ext.report.formatting import shown

    limit, used = sheet["mem_bytes"], sheet["mem_used_bytes"]
    if limit is None and used is None:
        return ""
    where = " of the fullest node" if len(sheet["nodes"]) > 1 else ""
    if used is None:
        return f"{shown(limit, 'bytes')}{where}, use not measured"
    of = "" if limit is None else f" of {shown(limit, 'bytes')}"
    return f"{shown(used, 'bytes')}{of}{where}{_share(sheet['mem'])}"


def _gpus(sheet: Mapping[str, Any]) -> str:
    from slurm_ext.report.formatting import name, percent, shown

    if not sheet["gpus"]:
        return ""
    models = name(" + ".join(sheet["gpu_models"])) if sheet["gpu_models"] else ""
    kind = f" {models}" if models else ""
    busy = "use not measured" if sheet["gpu"] is None else f"{percent(sheet['gpu'])} busy"
    gpu_bytes = sheet["gpu_mem_used_bytes"]
    memory = (
        "" if gpu_bytes is None else f", at most {shown(gpu_bytes, 'bytes')} of its memory in use"
    )
    return f"{sheet['gpus']}{kind}, {busy}{memory}"


def _disk(sheet: Mapping[str, Any]) -> Iterator[str]:
    from slurm_ext.report.formatting import shown

    if sheet["read_bytes"] or sheet["written_bytes"]:
        read, wrote = (shown(sheet[f"{n}_bytes"] or 0, "bytes") for n in ("read", "written"))
        yield f"disk:     read {read}, wrote {wrote}"


def _clock(seconds: float | None) -> str:
    from slurm_ext.core.units import format_minutes

    return "unknown time" if seconds is None else format_minutes(seconds / 60)


def _share(share: float | None) -> str:
    from slurm_ext.report.formatting import percent

    return "" if share is None else f" ({percent(share)})"
