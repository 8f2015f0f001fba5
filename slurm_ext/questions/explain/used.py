"""Use of what a run held on its node, as its counters have it: CPUs, memory, GPUs, time, disk."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_SUMS = {"cpu_user": "cpu_s", "cpu_system": "cpu_s", "io_read": "io_read", "io_write": "io_write"}
_PEAKS = {
    "mem_held_peak": "held",
    "mem_peak": "peak",
    "gpu_job_mem_peak": "own_gpu_mem",
    "gpu_mem_peak": "gpu_mem",
}
_MEANS = {"gpu_job_util": "own_gpu", "gpu_util": "gpu"}
_LOADER = ("samples_per_s", "whole_samples_per_s", "workers")


def used_of(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Amounts and shares of them (0 to 1) as `dlqueue jobs` has them; None: nothing was counted.

    `{cpus, cpus_used, cpu, mem_bytes, mem_used_bytes, mem, gpus, gpu, elapsed_s, time_limit_s,
    time, read_bytes, written_bytes}`; what was not measured is None.
    """
    from slurm_ext.history.views.job_efficiency import efficiency_of

    if all(value is None for value in folded(run["counters"]).values()):
        return None
    row = counted(run)
    job = efficiency_of([row])
    return {
        **{name: job[name] for name in ("cpus", "cpu", "gpus", "gpu", "mem", "time", "elapsed_s")},
        "cpus_used": None if job["cpu"] is None else job["cpu"] * job["cpus"],
        **{name: row[name] for name in AMOUNTS},
        "time_limit_s": run["time_limit_s"],
    }


AMOUNTS = ("mem_bytes", "mem_used_bytes", "read_bytes", "written_bytes")


def counted(run: Mapping[str, Any]) -> dict[str, Any]:
    """The run as `efficiency_of` takes it, with AMOUNTS and `gpu_mem_used_bytes`, of one GPU."""
    sums = folded(run["counters"])
    loader = {name: run.get(f"loader_{name}") for name in _LOADER}
    own = sums["own_gpu_mem"]
    return {
        **run,
        **loader,
        **sums,
        "mem_used_bytes": sums["peak"] if sums["held"] is None else sums["held"],
        "gpu_mem_used_bytes": sums["gpu_mem"] if own is None else own,
        "read_bytes": sums["io_read"],
        "written_bytes": sums["io_write"],
    }


def folded(counters: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The counters that are looked at: sums, the largest, and means over GPUs."""
    from statistics import mean  # where the history is: who prints the line needs none of it

    columns: dict[str, list[float]] = {}
    for counter in counters:
        key = (_SUMS | _PEAKS | _MEANS).get(counter["name"])
        if key is not None and counter["value"] is not None:
            columns.setdefault(key, []).append(counter["value"])
    how: dict[str, Callable[[list[float]], float]] = {
        **dict.fromkeys(_SUMS.values(), sum),
        **dict.fromkeys(_PEAKS.values(), max),
        **dict.fromkeys(_MEANS.values(), mean),
    }
    return {name: fold(columns[name]) if name in columns else None for name, fold in how.items()}


def line(used: Mapping[str, Any]) -> str:
    """For people: one line."""
    return f"used:     {'; '.join(_parts(used))}"


def _parts(used: Mapping[str, Any]) -> Iterator[str]:
    from slurm_ext.core.units import format_minutes
    from slurm_ext.report.formatting import percent, shown

    if used["cpu"] is not None:
        yield f"{used['cpus_used']:.1f} of {used['cpus']} CPUs ({percent(used['cpu'])})"
    if used["mem"] is not None:
        used_bytes, limit = (shown(used[name], "bytes") for name in ("mem_used_bytes", "mem_bytes"))
        yield f"{used_bytes} of {limit} memory ({percent(used['mem'])})"
    if used["gpu"] is not None:
        yield f"GPUs {percent(used['gpu'])} busy"
    if used["time"] is not None:
        took, limit = (format_minutes(used[name] / 60) for name in ("elapsed_s", "time_limit_s"))
        yield f"{took} of {limit} ({percent(used['time'])})"
    if used["read_bytes"] or used["written_bytes"]:
        read, wrote = (shown(used[name] or 0, "bytes") for name in ("read_bytes", "written_bytes"))
        yield f"read {read}, wrote {wrote}"
