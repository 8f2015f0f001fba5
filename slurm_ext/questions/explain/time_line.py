"""A run's use over time as a row of marks for each resource."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.report.tables import Kind

BLOCKS, LETTERS = "▁▂▃▄▅▆▇█", "_.:-=+*#"  # letters for a terminal that has no blocks
UNKNOWN = " "
# Resource: its name, its values in a series, what the run asked for, and what its values are.
RESOURCES: "tuple[tuple[str, str, str | None, Kind], ...]" = (
    ("cpus", "cpus", "cpus", "number"),
    ("memory", "mem_bytes", "mem_bytes", "bytes"),
    ("gpus", "gpus", "gpus", "number"),
    ("gpu mem", "gpu_mem_bytes", None, "bytes"),
    ("read/s", "read_bytes_per_s", None, "bytes"),
)


def lines(series: Mapping[str, Any], run: Mapping[str, Any], encoding: str) -> Iterator[str]:
    """For people: a head, and a line for each resource that was sampled."""
    from slurm_ext.core.units import format_minutes

    marks = BLOCKS if _has_blocks(encoding) else LETTERS
    whole = format_minutes(series["end_s"][-1] / 60)
    yield f"use:      over {whole} on {run['node']}, at the right the highest mark"
    for name, values, full, most in _rows(series, run):
        yield f"  {name:<7} {sparkline(values, full, marks)}  {most}"


def sparkline(values: Sequence[float | None], full: float, marks: str = BLOCKS) -> str:
    """One mark a value, the highest at `full` and above; a blank where there is none."""
    top = len(marks) - 1
    return "".join(
        UNKNOWN if value is None else marks[min(top, round(top * value / full)) if full else 0]
        for value in values
    )


def _rows(
    series: Mapping[str, Any], run: Mapping[str, Any]
) -> Iterator[tuple[str, list[float | None], float, str]]:
    """Name, values, the value of a full mark, and the highest in words."""
    from slurm_ext.report.formatting import percent, shown

    for name, key, of, kind in RESOURCES:
        most, limit = highest(series[key]), run[of] if of else None
        if most:
            text = f"{most:.3g}" if kind == "number" else shown(most, kind)
            whole = f" of {shown(limit, kind)}" if limit else ""
            yield name, series[key], limit or most, f"{text}{whole}"
    if series["wait"] is not None:
        most = highest(series["wait"])
        yield "waiting", series["wait"], 1.0, f"{percent(most)} of its time for data"


def highest(values: Sequence[float | None] | None) -> float:
    """The largest value that is known; 0 where there is none."""
    return max((value for value in values or () if value is not None), default=0.0)


def _has_blocks(encoding: str) -> bool:
    try:
        BLOCKS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
